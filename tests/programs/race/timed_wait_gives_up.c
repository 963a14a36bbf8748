// The wait is signalled in time, as a rule. A thread that gives up goes on without the lock.
#include <pthread.h>
#include <time.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int ready, value;

static void *producer(void *unused) {
    pthread_mutex_lock(&m);
    value = 42; // finds: data-race write, with line 29
    ready = 1;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, producer, 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    int late = 0;
    pthread_mutex_lock(&m);
    while (!ready && !late)
        late = pthread_cond_timedwait(&filled, &m, &until) != 0;
    pthread_mutex_unlock(&m);
    if (late) value = -1; // finds: data-race write, with line 11
    pthread_join(thread, 0);
    return 0;
}

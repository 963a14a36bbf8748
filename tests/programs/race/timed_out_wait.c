// A wait that timed out orders nothing.
#include <pthread.h>
#include <time.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int data, turns;

static void *worker(void *unused) {
    data = 1; // finds: data-race write, with line 24
    pthread_mutex_lock(&m);
    turns++;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    struct timespec past = {0, 0};
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    pthread_cond_timedwait(&c, &m, &past);
    pthread_mutex_unlock(&m);
    data = 2; // finds: data-race write, with line 10
    pthread_join(thread, 0);
    return 0;
}

// The result is used although the wait for it may have timed out.
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static sem_t finished;
static int result;

static void *worker(void *unused) {
    result = 42; // finds: data-race write, with line 23
    sem_post(&finished);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&finished, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    sem_timedwait(&finished, &until);
    int seen = result; // finds: data-race read, with line 10
    pthread_join(thread, 0);
    return seen == 43;
}

// The creator signals at once; a thread that gives up all the same goes on without the lock.
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int ready, value;

static void *await(void *arg) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&m);
    while (!ready)
        if (pthread_cond_clockwait(&filled, &m, CLOCK_MONOTONIC, &until)) break;
    pthread_mutex_unlock(&m);
    value++; // finds: data-race, with line 25
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1; // finds: data-race write, with line 18
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

// A recursive mutex is locked twice and unlocked once: nobody else ever gets it.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void *worker(void *unused) {
    pthread_mutex_lock(&m); // finds: left-locked
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return pthread_mutex_trylock(&m) != EBUSY;
}

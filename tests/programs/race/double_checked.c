// The first check of the pointer is made without the lock.
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int *instance;
static int missing;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    instance = malloc(sizeof *instance); // finds: data-race write, with line 19
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    if (!instance) { // finds: data-race read, with line 11
        pthread_mutex_lock(&m);
        if (!instance)
            missing++;
        pthread_mutex_unlock(&m);
    }
    pthread_join(thread, 0);
    free(instance);
    return 0;
}

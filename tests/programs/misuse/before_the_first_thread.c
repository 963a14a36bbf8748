// Misuse before the first thread is created, beside locks that are used as they should be and a race.
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
static int shared;

static void *worker(void *unused) {
    shared++; // finds: data-race write, with line 24
    pthread_mutex_lock(&outer);
    pthread_mutex_unlock(&outer);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&outer);
    pthread_mutex_lock(&inner);
    if (pthread_mutex_destroy(&inner) != EBUSY) // finds: destroy-locked
        return 1;
    pthread_mutex_unlock(&inner);
    pthread_create(&thread, 0, worker, 0);
    shared++; // finds: data-race write, with line 10
    pthread_mutex_unlock(&outer);
    pthread_join(thread, 0);
    return 0;
}

// Main locks the mutex and the worker unlocks it, as if it were a semaphore.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int result;

static void *worker(void *unused) {
    result = 1;
    pthread_mutex_unlock(&m); // finds: unlock-of-other
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&m);
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    int seen = result;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return seen != 1;
}

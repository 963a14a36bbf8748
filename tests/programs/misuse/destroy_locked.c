// The mutex is destroyed while it is locked.
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    int result = pthread_mutex_destroy(&m); // finds: destroy-locked
    pthread_mutex_unlock(&m);
    return result == EBUSY ? unused : &m;
}

int main(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, &result);
    return result != 0;
}

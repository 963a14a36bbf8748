// A lock keeps the two stores apart.
#include <pthread.h>

_Atomic int x;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *arg) {
    pthread_mutex_lock(&lock);
    x = 1;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&lock);
    x = 2;
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    return x > 2;
}

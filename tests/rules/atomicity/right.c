// One increment at a time.
#include <pthread.h>

_Atomic int x;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void increment(void) {
    int temp = x;
    temp++;
    x = temp;
}

static void *worker(void *arg) {
    pthread_mutex_lock(&lock);
    increment();
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&lock);
    increment();
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    return 0;
}

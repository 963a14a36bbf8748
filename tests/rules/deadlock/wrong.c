// Two threads lock the same two mutexes, each in its own order.
#include <pthread.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static int both;

static void *worker(void *arg) {
    pthread_mutex_lock(&right);
    pthread_mutex_lock(&left);
    both++;
    pthread_mutex_unlock(&left);
    pthread_mutex_unlock(&right);
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&left);
    pthread_mutex_lock(&right);
    both++;
    pthread_mutex_unlock(&right);
    pthread_mutex_unlock(&left);
    pthread_join(thread, 0);
    return 0;
}

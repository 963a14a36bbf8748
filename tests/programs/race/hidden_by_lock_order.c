// The sections of one lock happen to order the writes in most runs; nothing makes them come in
// this order.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int value, turns;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    turns++;
    pthread_mutex_unlock(&m);
    value = 2; // finds: data-race write, with line 19
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    value = 1; // finds: data-race write, with line 12
    pthread_mutex_lock(&m);
    turns++;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

// A lock that is tried until it can be had.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int value;

static void *worker(void *unused) {
    while (pthread_mutex_trylock(&m) != 0)
        continue;
    value++;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    while (pthread_mutex_trylock(&m) != 0)
        continue;
    value++;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

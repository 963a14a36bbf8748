// What a failed try counts is atomic.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int done;
static _Atomic int dropped;

static void *worker(void *unused) {
    if (pthread_mutex_trylock(&m) == 0) {
        done++;
        pthread_mutex_unlock(&m);
    } else {
        dropped++;
    }
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}

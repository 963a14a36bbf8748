// A longer run: two threads take turns at a locked counter many times.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int counter, history[64];

static void *worker(void *unused) {
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&m);
        history[counter++ % 64] = i;
        pthread_mutex_unlock(&m);
    }
    return unused;
}

int main(void) {
    pthread_t one, other;
    pthread_create(&one, 0, worker, 0);
    pthread_create(&other, 0, worker, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return counter != 40000;
}

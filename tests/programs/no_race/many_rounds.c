// The threads write in alternate rounds of one barrier.
#include <pthread.h>

static pthread_barrier_t barrier;
static int value;

static void *worker(void *unused) {
    for (int round = 0; round < 4; round++) {
        if (round % 2)
            value++;
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    for (int round = 0; round < 4; round++) {
        if (round % 2 == 0)
            value++;
        pthread_barrier_wait(&barrier);
    }
    pthread_join(thread, 0);
    return 0;
}

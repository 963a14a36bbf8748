// Main makes the barrier anew while the workers may not have come yet. It is one of a single thread, so that
// none of them waits for ever where it comes between two of them.
#include <pthread.h>

static pthread_barrier_t b;

static void *worker(void *unused) {
    pthread_barrier_wait(&b); // finds: destroyed-in-use use, with line 18
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&b, 0, 1);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (volatile int i = 0; i < 10000000; i++) {}
    pthread_barrier_init(&b, 0, 1); // finds: destroyed-in-use initialise, with line 8
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

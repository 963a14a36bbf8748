// Main makes the barrier anew for another number of threads while the workers may not have come yet.
#include <pthread.h>

static pthread_barrier_t b;

static void *worker(void *unused) {
    pthread_barrier_wait(&b); // finds: destroyed-in-use use, with line 17
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&b, 0, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (volatile int i = 0; i < 10000000; i++) {}
    pthread_barrier_init(&b, 0, 2); // finds: destroyed-in-use initialise, with line 7
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

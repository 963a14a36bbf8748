// Four threads, each in a loop over sixteen shared ints that nobody writes.
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 4000000 };
static int shared[16];
static int sums[THREADS * 16];

static void *work(void *number) {
    int *sum = &sums[(long)number * 16];
    for (int i = 0; i < ROUNDS; i++)
        *sum += shared[i & 15];
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// Four threads, each in a loop over sixteen ints of its own beside sixteen that all read.
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 16000000 };
int shared[16];
int sums[THREADS][32];

static void *work(void *number) {
    int *sum = sums[(long)number];
    for (int i = 0; i < ROUNDS; i++)
        sum[i & 15] += shared[i * 7 & 15];
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < 16; i++)
        shared[i] = i;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    int all = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], 0);
        all += sums[i][3];
    }
    return all == 0;
}

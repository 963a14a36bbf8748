// The writes and the reads are on two sides of a barrier, so the two equal writes of the race cannot be
// seen in any order. After the program of Figure 42 (Kasikci 2015), where the reader takes no part in the
// barrier although the text says that the output is always the same.
//
// outputs sc: 1,2
// outputs tso: 1,2
// outputs weak: 1,2
#include <pthread.h>
#include <stdio.h>

static volatile int data, flag;
static pthread_barrier_t barrier;

static void *publish(void *unused) {
    data = 2;
    flag = 1;
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *repeat(void *unused) {
    data = 2;
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void) {
    pthread_t first, second;
    pthread_barrier_init(&barrier, 0, 3);
    pthread_create(&first, 0, publish, 0);
    pthread_create(&second, 0, repeat, 0);
    pthread_barrier_wait(&barrier);
    printf("%d,%d\n", flag, data);
    pthread_join(first, 0);
    pthread_join(second, 0);
    return 0;
}

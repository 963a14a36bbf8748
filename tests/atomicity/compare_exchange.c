// nothing
// The exchange looks again at what was read.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int total;

static void *add(void *arg) {
    int old = atomic_load(&total);
    while (!atomic_compare_exchange_weak(&total, &old, old + 1))
        ;
    return arg;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("total %d\n", total);
    return 0;
}

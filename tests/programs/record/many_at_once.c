// Hundreds of threads that live at the same time.
#include <pthread.h>
#include <stdio.h>

enum { COUNT = 300 };
static pthread_barrier_t barrier;
static int values[COUNT];

static void *works(void *argument) {
    values[(int *)argument - values] = 1;
    pthread_barrier_wait(&barrier);
    values[((int *)argument - values + 1) % COUNT]++;
    return 0;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_barrier_init(&barrier, 0, COUNT);
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        pthread_create(&threads[i], &attributes, works, &values[i]);
    int sum = 0;
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; i < COUNT; i++)
        sum += values[i];
    printf("%d\n", sum);
    return 0;
}

// Four threads, each over its own 4 MB of one shared array, by turns reading and writing.
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, INTS = 1 << 20, ROUNDS = 8 };
static int *array;

static void *work(void *number) {
    int *mine = array + (long)number * INTS;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < INTS; i++)
            mine[i] += i;
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    array = calloc(THREADS * INTS, sizeof *array);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// Four threads, each over the bytes of its own 2 MB, then all over one shared 2 MB.
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, BYTES = 2 << 20, ROUNDS = 3 };
static unsigned char *array;

static void *work(void *number) {
    unsigned char *mine = array + ((long)number + 1) * BYTES;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < BYTES; i++)
            mine[i] += array[i];
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    array = calloc(THREADS + 1, BYTES);
    for (int i = 0; i < BYTES; i++)
        array[i] = i;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

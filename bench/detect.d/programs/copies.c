// Four threads copy and clear blocks of 4 KB and small structures; also the heap.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 6000 };
static char source[4096];
static _Thread_local char *volatile last;

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        char *block = malloc(4096);
        memcpy(block, source, 4096);
        memset(block + 64 * (i & 15), i, 1024);
        last = block;
        free(block);
    }
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

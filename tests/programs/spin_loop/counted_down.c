// Main polls a counter that all workers count down under a lock, each after its last use of a block, and
// then frees the blocks. The counter races; the frees are ordered by the loop.
#include <pthread.h>
#include <stdlib.h>

#define WORKERS 3

static volatile int working = WORKERS;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *blocks[WORKERS];

static void *work(void *argument) {
    int *block = argument;
    *block += 1; // spins
    pthread_mutex_lock(&lock);
    working--; // finds: data-race write, with line 29
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < WORKERS; i++) {
        blocks[i] = malloc(sizeof *blocks[i]);
        *blocks[i] = i;
        pthread_create(&thread, 0, work, blocks[i]);
        pthread_detach(thread);
    }
    while (working) // finds: data-race read, with line 16
        continue;
    for (int i = 0; i < WORKERS; i++)
        free(blocks[i]); // spins
    return 0;
}

// A third thread polls the flag, and main frees the block once that thread has ended: the loop orders the
// free after the worker's last use of the block.
#include <pthread.h>
#include <stdlib.h>

static volatile int done;
static int *block;

static void *worker(void *unused) {
    *block = 1; // spins
    done = 1;   // finds: data-race write, with line 16
    return unused;
}

static void *poller(void *unused) {
    while (!done) {} // finds: data-race read, with line 11
    return unused;
}

int main(void) {
    pthread_t threads[2];
    block = malloc(sizeof *block);
    pthread_create(&threads[0], 0, worker, 0);
    pthread_create(&threads[1], 0, poller, 0);
    pthread_join(threads[1], 0);
    free(block); // spins
    pthread_join(threads[0], 0);
    return 0;
}

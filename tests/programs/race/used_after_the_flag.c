// A third thread polls the flag, and main frees the block once that thread has ended; but the worker uses the
// block once more after it has set the flag.
#include <pthread.h>
#include <stdlib.h>

static volatile int done;
static int *block;

static void *worker(void *unused) {
    done = 1;   // finds: data-race write, with line 16
    *block = 1; // finds: use-after-free write, with line 26
    return unused;
}

static void *poller(void *unused) {
    while (!done) {} // finds: data-race read, with line 10
    return unused;
}

int main(void) {
    pthread_t threads[2];
    block = malloc(sizeof *block);
    pthread_create(&threads[0], 0, worker, 0);
    pthread_create(&threads[1], 0, poller, 0);
    pthread_join(threads[1], 0);
    free(block); // finds: use-after-free free, with line 11
    pthread_join(threads[0], 0);
    return 0;
}

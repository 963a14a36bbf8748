// The block is freed while the other thread may still read it.
#include <pthread.h>
#include <stdlib.h>

static int *block;
static int seen;

static void *worker(void *unused) {
    seen = *block; // finds: use-after-free read, with line 18
    return unused;
}

int main(void) {
    pthread_t thread;
    block = malloc(sizeof *block);
    *block = 1;
    pthread_create(&thread, 0, worker, 0);
    free(block); // finds: use-after-free, with line 9
    pthread_join(thread, 0);
    return 0;
}

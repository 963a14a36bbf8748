// The second thread polls a flag of the first and sets another one, which main polls before it frees.
#include <pthread.h>
#include <stdlib.h>

static volatile int done, seen;
static int *block;

static void *worker(void *unused) {
    *block = 1; // spins
    done = 1;   // finds: data-race write, with line 15
    return unused;
}

static void *between(void *unused) {
    while (!done) {} // finds: data-race read, with line 10
    seen = 1;        // finds: data-race write, with line 25
    return unused;
}

int main(void) {
    pthread_t threads[2];
    block = malloc(sizeof *block);
    pthread_create(&threads[0], 0, worker, 0);
    pthread_create(&threads[1], 0, between, 0);
    while (!seen) {} // finds: data-race read, with line 16
    free(block);     // spins
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}

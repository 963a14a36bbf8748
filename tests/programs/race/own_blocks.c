// Each worker allocates a block, and the allocator gives the second one the bytes of the first. That
// orders nothing: what both do beside it races.
#include <pthread.h>
#include <stdlib.h>

static long done;

static void *worker(void *unused) {
    char *block = malloc(64);
    block[0] = 1;
    done = done + block[0]; // finds: data-race, with itself
    free(block);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

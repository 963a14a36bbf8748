// One thread frees a block twice, with another block between, so that the C library does not notice.
#include <pthread.h>
#include <stdlib.h>

static void *worker(void *unused) {
    void *blocks[2];
    // As large as to be kept in the list that only compares with its first block.
    void *full[7];
    for (int i = 0; i < 7; i++)
        full[i] = malloc(40);
    for (int i = 0; i < 2; i++)
        blocks[i] = malloc(40);
    for (int i = 0; i < 7; i++)
        free(full[i]);
    free(blocks[0]); // finds: double-free
    free(blocks[1]);
    free(blocks[0]); // finds: double-free
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return 0;
}

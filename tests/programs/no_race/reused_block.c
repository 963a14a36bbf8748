// The allocator gives the same block to one thread after the other.
#include <pthread.h>
#include <stdlib.h>

static void *worker(void *unused) {
    for (int i = 0; i < 20; i++) {
        int *block = malloc(64);
        block[0] = i;
        free(block);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    for (int i = 0; i < 20; i++) {
        int *block = malloc(64);
        block[0] = i;
        free(block);
    }
    pthread_join(thread, 0);
    return 0;
}

// The block lies somewhere else in every run.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *worker(void *block) {
    ++*(int *)block; // finds: data-race, with line 16
    return 0;
}

int main(void) {
    pthread_t thread;
    void *before = malloc(1000 + getpid() % 97 * 64);
    int *block = calloc(16, sizeof *block);
    pthread_create(&thread, 0, worker, block);
    ++*block; // finds: data-race, with line 7
    pthread_join(thread, 0);
    free(before);
    free(block);
    return 0;
}

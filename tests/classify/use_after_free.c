// options: --values --seed 1
// Main frees the block without waiting for the thread that reads it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int *block;
static int seen;

static void *reader(void *unused) {
    seen = *block; // class: spec-violated
    return unused;
}

int main(void) {
    block = malloc(sizeof *block);
    *block = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, reader, NULL);
    free(block);
    pthread_join(thread, NULL);
    return 0;
}

// options: --values --seed 1
// Two races in one program: one of them ends in a crash, the other one does nothing.
#include <pthread.h>
#include <stdio.h>

static int value = 3;
static int *pointer;
static int visited;

static void *worker(void *unused) {
    visited = 1; // class: harmless
    int *own = pointer; // class: spec-violated
    printf("value %d\n", *own);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pointer = &value;
    visited = 1;
    pthread_join(thread, NULL);
    return 0;
}

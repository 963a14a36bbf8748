// The last owner frees the block.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct shared {
    atomic_int count;
    int value;
};

static void drop(struct shared *shared) {
    if (atomic_fetch_sub_explicit(&shared->count, 1, memory_order_acq_rel) == 1)
        free(shared);
}

static int sum;

static void *worker(void *argument) {
    struct shared *shared = argument;
    int mine = shared->value;
    (void)mine;
    drop(shared);
    return 0;
}

int main(void) {
    pthread_t thread;
    struct shared *shared = malloc(sizeof *shared);
    atomic_init(&shared->count, 2);
    shared->value = 42;
    pthread_create(&thread, 0, worker, shared);
    sum += shared->value;
    drop(shared);
    pthread_join(thread, 0);
    return 0;
}

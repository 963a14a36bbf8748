// confirmed: add
// Two atomic operations are not one.
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int total;

static void *add(void *arg) {
    int old = atomic_load(&total);
    atomic_store(&total, old + 1);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    assert(total == 2);
    return 0;
}

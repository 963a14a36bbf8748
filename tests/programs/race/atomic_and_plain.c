// An atomic store and a plain read of the same variable.
#include <pthread.h>
#include <stdatomic.h>

static int shared, seen;

static void *worker(void *unused) {
    atomic_store((atomic_int *)&shared, 1); // finds: data-race, with line 15
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    seen = shared; // finds: data-race read, with line 8
    pthread_join(thread, 0);
    return 0;
}

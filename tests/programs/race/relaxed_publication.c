// A relaxed store does not publish what was written before it.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int ready;
static int data, seen;

static void *worker(void *unused) {
    data = 42; // finds: data-race write, with line 18
    atomic_store_explicit(&ready, 1, memory_order_relaxed);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    seen = atomic_load_explicit(&ready, memory_order_relaxed);
    seen += data; // finds: data-race read, with line 9
    pthread_join(thread, 0);
    return 0;
}

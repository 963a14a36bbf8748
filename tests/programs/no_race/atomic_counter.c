// Atomic accesses do not race with each other.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int counter;

static void *worker(void *unused) {
    atomic_fetch_add(&counter, 1);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    pthread_join(thread, 0);
    return 0;
}

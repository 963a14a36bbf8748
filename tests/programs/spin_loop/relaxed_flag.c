// A relaxed flag does not publish what was written before it: the loop waits, but orders nothing.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!atomic_load_explicit(&flag, memory_order_relaxed))
        continue;
    seen = data; // finds: data-race read, with line 18
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42; // finds: data-race write, with line 11
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    pthread_join(thread, 0);
    return 0;
}

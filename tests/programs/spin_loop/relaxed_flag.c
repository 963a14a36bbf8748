// A relaxed flag does not publish in C, but the loop still makes one access come after the other.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!atomic_load_explicit(&flag, memory_order_relaxed))
        continue;
    seen = data; // spins
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42; // spins
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    pthread_join(thread, 0);
    return 0;
}

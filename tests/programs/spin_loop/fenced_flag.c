// The loop reads a relaxed flag, and fences on both sides make it publish.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!atomic_load_explicit(&flag, memory_order_relaxed))
        continue;
    atomic_thread_fence(memory_order_acquire);
    seen = data;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    pthread_join(thread, 0);
    return 0;
}

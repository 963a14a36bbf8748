// An atomic flag with acquire and release orders the data.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!atomic_load_explicit(&flag, memory_order_acquire))
        continue;
    seen = data;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42;
    atomic_store_explicit(&flag, 1, memory_order_release);
    pthread_join(thread, 0);
    return 0;
}

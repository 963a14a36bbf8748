// A read-modify-write continues the release sequence.
#include <pthread.h>
#include <stdatomic.h>

static atomic_int state;
static int data, seen;

static void *middle(void *unused) {
    atomic_fetch_add_explicit(&state, 1, memory_order_relaxed);
    return unused;
}

static void *reader(void *unused) {
    if (atomic_load_explicit(&state, memory_order_acquire) >= 10)
        seen = data;
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, middle, 0);
    pthread_create(&threads[1], 0, reader, 0);
    data = 42;
    atomic_fetch_add_explicit(&state, 10, memory_order_release);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}

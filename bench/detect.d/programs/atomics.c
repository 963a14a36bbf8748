// Four threads on one atomic counter.
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 1000000 };
static atomic_long counter;

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++)
        atomic_fetch_add_explicit(&counter, 1, memory_order_acq_rel);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

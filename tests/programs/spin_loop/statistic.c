// The loop waits for a flag with acquire and release, and shows a statistic meanwhile: the flag orders
// what was written before it, and nothing orders the statistic while the loop runs.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int done;
static int served, shown, data;

static void *worker(void *unused) {
    data = 42;
    for (int i = 0; i < 3; i++) {
        served++; // finds: data-race write, with line 24
        usleep(1000);
    }
    atomic_store_explicit(&done, 1, memory_order_release);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    do {
        shown = served; // finds: data-race read, with line 13
        usleep(500);
    } while (!atomic_load_explicit(&done, memory_order_acquire));
    shown += data;
    pthread_join(thread, 0);
    return 0;
}

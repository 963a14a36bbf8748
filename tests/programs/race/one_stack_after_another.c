// The second thread gets the stack of the first one, which has ended. Main does not wait for that
// end, so nothing orders the two.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static long seen;
static atomic_int ended;

static void *note(void *unused) {
    volatile long mine[4] = {1};
    seen = seen + mine[0]; // finds: data-race, with itself
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    return unused;
}

int main(void) {
    for (int i = 1; i <= 2; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, note, 0);
        pthread_detach(thread);
        while (atomic_load_explicit(&ended, memory_order_relaxed) < i)
            ;
        usleep(1000);
    }
    return 0;
}

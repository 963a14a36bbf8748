// A spin lock built from an exchange.
#include <pthread.h>
#include <stdatomic.h>

static atomic_flag busy = ATOMIC_FLAG_INIT;
static int counter;

static void *worker(void *unused) {
    while (atomic_flag_test_and_set(&busy))
        continue;
    counter++;
    atomic_flag_clear(&busy);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    while (atomic_flag_test_and_set(&busy))
        continue;
    counter++;
    atomic_flag_clear(&busy);
    pthread_join(thread, 0);
    return 0;
}

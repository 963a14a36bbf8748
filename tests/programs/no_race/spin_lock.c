// A spin lock guards the counter.
#include <pthread.h>

static pthread_spinlock_t l;
static int counter;

static void *worker(void *unused) {
    pthread_spin_lock(&l);
    counter++;
    pthread_spin_unlock(&l);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_spin_init(&l, 0);
    pthread_create(&thread, 0, worker, 0);
    pthread_spin_lock(&l);
    counter++;
    pthread_spin_unlock(&l);
    pthread_join(thread, 0);
    return 0;
}

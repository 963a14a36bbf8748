// A spin lock is unlocked, and nobody holds it. The reader-writer lock is used as it should be.
#include <pthread.h>

static pthread_spinlock_t spin;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *worker(void *unused) {
    pthread_spin_unlock(&spin);   // finds: unlock-not-locked
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_wrlock(&lock);
    pthread_rwlock_unlock(&lock);
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return 0;
}

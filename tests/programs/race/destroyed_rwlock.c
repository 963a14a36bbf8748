// The lock is destroyed when the counter of readers, which is read outside of it, is zero.
#include <pthread.h>
#include <stdatomic.h>

static pthread_rwlock_t lock;
static atomic_int readers;

static void *reader(void *unused) {
    atomic_fetch_add(&readers, 1);
    pthread_rwlock_rdlock(&lock); // finds: destroyed-in-use use, with line 24
    atomic_fetch_sub(&readers, 1);
    pthread_rwlock_unlock(&lock); // finds: destroyed-in-use use, with line 24
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_rwlock_init(&lock, 0);
    pthread_create(&thread, 0, reader, 0);
    // Zero before the reader came, and again before it unlocks.
    while (atomic_load(&readers))
        ;
    for (volatile int i = 0; i < 10000000; i++) {}
    pthread_rwlock_destroy(&lock); // finds: destroyed-in-use destroy, with lines 10, 12
    pthread_join(thread, 0);
    return 0;
}

// A writer and a reader of two locks in opposite orders.
#include <pthread.h>

static pthread_rwlock_t a = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t b = PTHREAD_RWLOCK_INITIALIZER;

static void *worker(void *unused) {
    pthread_rwlock_wrlock(&a);
    pthread_rwlock_rdlock(&b); // finds: deadlock
    pthread_rwlock_unlock(&b);
    pthread_rwlock_unlock(&a);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_rwlock_wrlock(&b);
    pthread_rwlock_rdlock(&a); // finds: deadlock
    pthread_rwlock_unlock(&a);
    pthread_rwlock_unlock(&b);
    pthread_join(thread, 0);
    return 0;
}

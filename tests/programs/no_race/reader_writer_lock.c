// Readers read, the writer writes.
#include <pthread.h>

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int shared;

static void *worker(void *unused) {
    pthread_rwlock_rdlock(&l);
    int mine = shared;
    pthread_rwlock_unlock(&l);
    (void)mine;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_rwlock_wrlock(&l);
    shared++;
    pthread_rwlock_unlock(&l);
    pthread_join(thread, 0);
    return 0;
}

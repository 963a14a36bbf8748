// Readers do not exclude each other, but both write.
#include <pthread.h>

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int counter;

static void *worker(void *unused) {
    pthread_rwlock_rdlock(&l);
    counter++; // finds: data-race, with line 18
    pthread_rwlock_unlock(&l);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_rwlock_rdlock(&l);
    counter++; // finds: data-race, with line 9
    pthread_rwlock_unlock(&l);
    pthread_join(thread, 0);
    return 0;
}

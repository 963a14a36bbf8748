// A program with one thread: what it does wrong with its locks is found although nothing can race.
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

int main(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&mutex); // finds: unlock-not-locked
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_destroy(&lock); // finds: destroy-locked
    return 0;
}

// Two threads hold a lock for reading one after the other: that orders neither of them.
#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int config, value;

static void *worker(void *unused) {
    pthread_rwlock_rdlock(&lock);
    int seen = config;
    pthread_rwlock_unlock(&lock);
    value = seen; // finds: data-race write, with line 18
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    value = 1; // finds: data-race write, with line 11
    pthread_rwlock_rdlock(&lock);
    int seen = config;
    pthread_rwlock_unlock(&lock);
    pthread_join(thread, 0);
    return seen;
}

// sketch: atomicity
// After memcached bug 127: an increment is a get and a set, each under the lock, and one is lost.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long stored;

static long get(void) {
    pthread_mutex_lock(&lock);
    long value = stored; // cause (1)
    pthread_mutex_unlock(&lock);
    return value;
}

static void set(long value) {
    pthread_mutex_lock(&lock);
    stored = value; // cause (2) cause (3)
    pthread_mutex_unlock(&lock);
}

static void *increment(void *unused) {
    for (int i = 0; i < 3; i++)
        set(get() + 1);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, increment, 0); // before (1)
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    assert(stored == 6); // after (1)
    return 0;
}

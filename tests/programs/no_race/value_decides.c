// The worker writes only if main has passed the lock before it, so the lock orders the two writes.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int arrived, value;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    int order = ++arrived;
    pthread_mutex_unlock(&m);
    if (order > 1)
        value++;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    value++;
    pthread_mutex_lock(&m);
    ++arrived;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

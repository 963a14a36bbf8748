// The worker writes only when it has seen the first value of the two: then the lock orders the
// writes, although one of them has none.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int stage, value;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    if (stage == 1)
        value = 2;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    value = 1;
    pthread_mutex_lock(&m);
    stage = 1;
    pthread_mutex_unlock(&m);
    pthread_mutex_lock(&m);
    stage = 2;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

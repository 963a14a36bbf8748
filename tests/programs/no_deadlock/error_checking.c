// A mutex that refuses a second lock by its owner.
#include <pthread.h>

static pthread_mutex_t m;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    if (pthread_mutex_lock(&m) == 0)
        pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&m, &kind);
    pthread_create(&thread, 0, worker, 0);
    worker(0);
    pthread_join(thread, 0);
    return 0;
}

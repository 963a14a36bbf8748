// The inner lock of one side is only tried.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    if (pthread_mutex_trylock(&p) == 0)
        pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_join(thread, 0);
    return 0;
}

// A recursive mutex is taken again inside.
#include <pthread.h>

static pthread_mutex_t m;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;

static void work(void) {
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
}

static void *worker(void *unused) {
    work();
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&m, &kind);
    pthread_create(&thread, 0, worker, 0);
    work();
    pthread_join(thread, 0);
    return 0;
}

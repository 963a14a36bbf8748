// Both threads change the order of their locks at the barrier, so the two orders never overlap.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t b;

static void *worker(void *unused) {
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_barrier_wait(&b);
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&p);
    pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&b, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_barrier_wait(&b);
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&p);
    pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

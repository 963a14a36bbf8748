// Both orders in both threads, but a barrier keeps the phases apart.
#include <pthread.h>

static pthread_barrier_t b;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;

static void both(pthread_mutex_t *one, pthread_mutex_t *other) {
    pthread_mutex_lock(one);
    pthread_mutex_lock(other);
    pthread_mutex_unlock(other);
    pthread_mutex_unlock(one);
}

static void *worker(void *unused) {
    both(&p, &m);
    pthread_barrier_wait(&b);
    both(&m, &p);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&b, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    both(&p, &m);
    pthread_barrier_wait(&b);
    both(&m, &p);
    pthread_join(thread, 0);
    return 0;
}

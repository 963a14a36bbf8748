// The barrier is reached with the lock held, which the other thread needs first.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t b;
static int done;

static void *worker(void *unused) {
    pthread_mutex_lock(&m); // finds: stuck
    done = 1;
    pthread_mutex_unlock(&m);
    pthread_barrier_wait(&b);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&b, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    pthread_barrier_wait(&b); // finds: stuck
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

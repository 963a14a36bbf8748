// A cycle of three threads and three locks.
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t b = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t c = PTHREAD_MUTEX_INITIALIZER;

static void *first(void *unused) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b); // finds: deadlock
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return unused;
}

static void *second(void *unused) {
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&c); // finds: deadlock
    pthread_mutex_unlock(&c);
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_mutex_lock(&c);
    pthread_mutex_lock(&a); // finds: deadlock
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&c);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}

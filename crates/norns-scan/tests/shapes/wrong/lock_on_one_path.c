// The first lock of one thread is taken on one path only.
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int both;

static void *one(void *needs_a) {
    if (needs_a) pthread_mutex_lock(&a);
    pthread_mutex_lock(&b); // candidate: deadlock
    both++;
    pthread_mutex_unlock(&b);
    if (needs_a) pthread_mutex_unlock(&a);
    return 0;
}

static void *other(void *unused) {
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a); // candidate: deadlock
    both++;
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, one, count > 1 ? words : 0);
    pthread_create(&threads[1], 0, other, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return both;
}

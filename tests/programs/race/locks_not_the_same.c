// Three places, three sets of locks: two of them have none in common.
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t b = PTHREAD_MUTEX_INITIALIZER;
static int value;

static void *with_a(void *unused) {
    pthread_mutex_lock(&a);
    value = 1; // finds: data-race write, with line 26
    pthread_mutex_unlock(&a);
    return unused;
}

static void *with_both(void *unused) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    value = 2;
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
    return unused;
}

static void *with_b(void *unused) {
    pthread_mutex_lock(&b);
    value = 3; // finds: data-race write, with line 10
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], 0, with_a, 0);
    pthread_create(&threads[1], 0, with_both, 0);
    pthread_create(&threads[2], 0, with_b, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}

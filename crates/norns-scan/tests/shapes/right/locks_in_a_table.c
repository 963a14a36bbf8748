// The functions of the library stand in a table.
#include <pthread.h>

struct methods {
    int (*lock)(pthread_mutex_t *);
    int (*unlock)(pthread_mutex_t *);
};
static const struct methods threads = {pthread_mutex_lock, pthread_mutex_unlock};
static const struct methods *methods = &threads;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count;

static void *worker(void *unused) {
    methods->lock(&mutex);
    count++;
    methods->unlock(&mutex);
    return unused;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, worker, 0);
    pthread_create(&b, 0, worker, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return count;
}

// The accesses are ordered or locked in every run, but the locks can be taken crosswise.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static int x, y;

static void *worker(void *unused) {
    pthread_mutex_lock(&p);
    y = 1;
    pthread_mutex_lock(&m); // finds: deadlock
    x = 1;
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    x = 2;
    pthread_mutex_lock(&p); // finds: deadlock
    y = 2;
    pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

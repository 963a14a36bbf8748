// Nobody ever signals: the program hangs whenever it runs, also while it is recorded.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    while (!ready) pthread_cond_wait(&c, &m); // finds: stuck
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return 0;
}

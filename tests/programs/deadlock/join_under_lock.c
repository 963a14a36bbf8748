// Main joins a thread while it has the lock that the thread needs.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int value;

static void *worker(void *unused) {
    pthread_mutex_lock(&m); // finds: stuck
    value++;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    value++;
    pthread_join(thread, 0); // finds: stuck
    pthread_mutex_unlock(&m);
    return 0;
}

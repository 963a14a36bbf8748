// The check and the action each hold the lock; the read between them does not.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int queue;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    int empty = queue == 0;
    pthread_mutex_unlock(&m);
    if (empty)
        queue = 1; // finds: data-race write, with line 20
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    int full = queue; // finds: data-race read, with line 12
    pthread_mutex_unlock(&m);
    (void)full;
    pthread_join(thread, 0);
    return 0;
}

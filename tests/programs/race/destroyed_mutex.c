// Main destroys the mutex without waiting for the worker.
#include <pthread.h>

static pthread_mutex_t m;
static int count;

static void *worker(void *unused) {
    pthread_mutex_lock(&m); // finds: destroyed-in-use use, with line 19
    count++;
    pthread_mutex_unlock(&m); // finds: destroyed-in-use use, with line 19
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_init(&m, 0);
    pthread_create(&thread, 0, worker, 0);
    // The worker has most often not begun, or is done.
    pthread_mutex_destroy(&m); // finds: destroyed-in-use destroy, with lines 8, 10
    pthread_join(thread, 0);
    return 0;
}

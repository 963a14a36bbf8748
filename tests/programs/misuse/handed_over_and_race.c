// The mutex is handed from thread to thread like a semaphore, which orders what it guards. What stands
// beside it still races.
#include <pthread.h>

static pthread_mutex_t ready = PTHREAD_MUTEX_INITIALIZER;
static int guarded, beside;

static void *worker(void *unused) {
    guarded = 1;
    pthread_mutex_unlock(&ready); // finds: unlock-of-other
    beside = 1; // finds: data-race write, with line 20
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&ready);
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&ready);
    int seen = guarded + beside; // finds: data-race read, with line 11
    pthread_mutex_unlock(&ready);
    pthread_join(thread, 0);
    return seen < 1;
}

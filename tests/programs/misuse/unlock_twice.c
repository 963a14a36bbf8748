// The mutex is unlocked once too often.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int count;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    count++;
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&m); // finds: unlock-not-locked
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return count != 1;
}

// Only one side takes the lock.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    counter++; // finds: data-race, with line 17
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    counter++; // finds: data-race, with line 9
    pthread_join(thread, 0);
    return 0;
}

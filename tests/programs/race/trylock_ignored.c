// The result of pthread_mutex_trylock is ignored, so a failed try goes on as if it had the lock.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *worker(void *unused) {
    pthread_mutex_trylock(&m);
    counter = 1; // finds: data-race write, with line 17
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    counter = 2; // finds: data-race write, with line 9
    pthread_join(thread, 0);
    return 0;
}

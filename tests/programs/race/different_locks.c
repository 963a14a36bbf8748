// Each side takes a lock, but not the same one.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    counter++; // finds: data-race, with line 19
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&p);
    counter++; // finds: data-race, with line 10
    pthread_mutex_unlock(&p);
    pthread_join(thread, 0);
    return 0;
}

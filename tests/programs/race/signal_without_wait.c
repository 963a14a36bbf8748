// The flag is read without the lock, so nothing orders the data.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready, value;

static void *worker(void *unused) {
    value = 1; // finds: data-race write, with line 23
    pthread_mutex_lock(&m);
    ready = 1;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    int seen = ready;
    pthread_mutex_unlock(&m);
    value = 2 + seen; // finds: data-race write, with line 9
    pthread_join(thread, 0);
    return 0;
}

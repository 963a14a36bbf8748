// The opposite order is taken only after the first thread has finished, which a flag tells.
#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static atomic_int done;

static void *worker(void *unused) {
    if (atomic_load(&done)) {
        pthread_mutex_lock(&m);
        pthread_mutex_lock(&p);
        pthread_mutex_unlock(&p);
        pthread_mutex_unlock(&m);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    atomic_store(&done, 1);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_join(thread, 0);
    return 0;
}

// The signal is sent without the lock, so it may come between the check of the flag and the
// wait. A run that sees the flag set has no wait, so nothing can be predicted from it.
#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static atomic_int ready;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    if (!atomic_load(&ready))
        pthread_cond_wait(&c, &m); // may find: stuck
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    for (int i = 0; i < 1000; i++)
        __asm__ volatile("pause");
    atomic_store(&ready, 1);
    pthread_cond_signal(&c);
    pthread_join(thread, 0);
    return 0;
}

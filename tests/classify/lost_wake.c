// options: --values --seed 1
// The flag is set without the lock: the waiter can test it, miss the signal, and wait for ever.
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;

static void *waiter(void *unused) {
    pthread_mutex_lock(&lock);
    while (!done) // class: spec-violated
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, waiter, NULL);
    done = 1;
    pthread_cond_signal(&changed);
    pthread_join(thread, NULL);
    return 0;
}

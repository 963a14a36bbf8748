// A thread is cancelled while it waits on a condition: its clean-up has the mutex.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int value;

static void clean_up(void *unused) {
    (void)unused;
    value++;
    pthread_mutex_unlock(&m);
}

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    pthread_cleanup_push(clean_up, 0);
    for (;;)
        pthread_cond_wait(&c, &m);
    pthread_cleanup_pop(1);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    value++;
    pthread_mutex_unlock(&m);
    pthread_cancel(thread);
    pthread_join(thread, 0);
    return 0;
}

// A mutex and a condition are used after they were destroyed, in one thread and behind a join; what was
// initialised again may be used.
#include <pthread.h>

static pthread_mutex_t once_more, joined;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int count;

static void *worker(void *unused) {
    pthread_mutex_lock(&joined);
    count++;
    pthread_mutex_unlock(&joined);
    pthread_mutex_destroy(&joined);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_init(&once_more, 0);
    pthread_mutex_init(&joined, 0);
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    pthread_mutex_lock(&joined); // finds: use-destroyed use
    count++;
    pthread_mutex_unlock(&joined); // finds: use-destroyed use
    pthread_mutex_destroy(&once_more);
    pthread_mutex_init(&once_more, 0);
    pthread_mutex_lock(&once_more);
    pthread_mutex_unlock(&once_more);
    pthread_mutex_destroy(&once_more);
    once_more = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once_more);
    pthread_mutex_unlock(&once_more);
    pthread_cond_destroy(&changed);
    pthread_cond_signal(&changed); // finds: use-destroyed use
    return 0;
}

// A thread ends while it holds a robust mutex; the next owner is ordered after what it did.
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t m;
static int value;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    value++;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&m, &kind);
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    if (pthread_mutex_lock(&m) == EOWNERDEAD)
        pthread_mutex_consistent(&m);
    value++;
    pthread_mutex_unlock(&m);
    return 0;
}

// A recursive mutex, taken twice.
#include <pthread.h>

static pthread_mutex_t m;
static int counter;

static void add(void) {
    pthread_mutex_lock(&m);
    counter++;
    pthread_mutex_unlock(&m);
}

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    add();
    counter++;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&m, &kind);
    pthread_create(&thread, 0, worker, 0);
    add();
    pthread_join(thread, 0);
    return 0;
}

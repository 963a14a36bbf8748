// The loop reads the flag under a lock, so the lock orders the accesses as C requires.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int flag, data, seen;

static void *worker(void *unused) {
    int ready = 0;
    while (!ready) {
        pthread_mutex_lock(&m);
        ready = flag;
        pthread_mutex_unlock(&m);
    }
    seen = data;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42;
    pthread_mutex_lock(&m);
    flag = 1;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

// The thread polls under the lock until the other is done, and only then takes the locks the other way.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static int done;

static void *worker(void *unused) {
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_mutex_lock(&m);
    done = 1;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    for (int ready = 0; !ready;) {
        pthread_mutex_lock(&m);
        ready = done;
        pthread_mutex_unlock(&m);
    }
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&p);
    pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

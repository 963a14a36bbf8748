// Two locks taken one after the other hide the race as well as one does.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static int value;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_lock(&p);
    pthread_mutex_unlock(&p);
    value = 2; // finds: data-race write, with line 20
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    value = 1; // finds: data-race write, with line 13
    pthread_mutex_lock(&p);
    pthread_mutex_unlock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

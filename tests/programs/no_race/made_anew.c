// Each round has its own mutex and condition, at the same place: made, used by a thread, destroyed.
#include <pthread.h>

static pthread_mutex_t m;
static pthread_cond_t c;
static int done;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    done = 1;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        pthread_mutex_init(&m, 0);
        pthread_cond_init(&c, 0);
        done = 0;
        pthread_create(&thread, 0, worker, 0);
        pthread_mutex_lock(&m);
        while (!done)
            pthread_cond_wait(&c, &m);
        pthread_mutex_unlock(&m);
        pthread_join(thread, 0);
        pthread_cond_destroy(&c);
        pthread_mutex_destroy(&m);
    }
    return 0;
}

// Two threads wait for each other by turns, on a flag in a loop.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int turn;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    turn = 1;
    pthread_cond_signal(&c);
    while (turn == 1)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    while (turn == 0)
        pthread_cond_wait(&c, &m);
    turn = 2;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

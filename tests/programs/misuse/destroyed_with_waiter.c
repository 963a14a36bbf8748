// Main destroys a condition on which the worker waits. The C library then waits for the worker, in vain.
// The other condition is destroyed when its waiter was woken, which is allowed.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t answer = PTHREAD_COND_INITIALIZER;
static int is_there, is_answered;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    is_there = 1;
    pthread_cond_broadcast(&there);
    pthread_cond_destroy(&there);
    while (!is_answered)
        pthread_cond_wait(&answer, &m);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&m);
    pthread_create(&thread, 0, worker, 0);
    while (!is_there)
        pthread_cond_wait(&there, &m);
    pthread_mutex_unlock(&m);
    pthread_cond_destroy(&answer); // finds: destroy-waited destroy
    pthread_mutex_lock(&m);
    is_answered = 1;
    pthread_cond_signal(&answer);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

// The waiter destroys the condition as soon as it sees the flag; the signal may come after that. In a
// run in which the waiter slept, and was woken by that very signal, it cannot.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c;
static int done;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    done = 1;
    pthread_mutex_unlock(&m);
    pthread_cond_signal(&c); // may find: destroyed-in-use use, with line 26
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_cond_init(&c, 0);
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    while (!done)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    // If we did not sleep, the signal is still to come.
    pthread_cond_destroy(&c); // may find: destroyed-in-use destroy, with line 13
    pthread_join(thread, 0);
    return 0;
}

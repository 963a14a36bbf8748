// Objects are destroyed as soon as POSIX allows it: a semaphore after the wait for its only post, a
// barrier after it was left, a condition after the broadcast, all while others return from their calls.
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go;
static pthread_barrier_t b;
static sem_t s;
static int waits, may_go;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    waits = 1;
    while (!may_go)
        pthread_cond_wait(&go, &m);
    pthread_mutex_unlock(&m);
    sem_post(&s);
    pthread_barrier_wait(&b);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_cond_init(&go, 0);
    pthread_barrier_init(&b, 0, 2);
    sem_init(&s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    for (int ready = 0; !ready;) {
        pthread_mutex_lock(&m);
        ready = waits;
        if (ready) {
            may_go = 1;
            pthread_cond_broadcast(&go);
            pthread_cond_destroy(&go);
        }
        pthread_mutex_unlock(&m);
    }
    sem_wait(&s);
    sem_destroy(&s);
    pthread_barrier_wait(&b);
    pthread_barrier_destroy(&b);
    pthread_join(thread, 0);
    return 0;
}

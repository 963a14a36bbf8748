// Two threads wait on one condition at the same time, each with a mutex of its own.
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static sem_t waiting;
static int a_done, b_done;

static void *waits_with_a(void *unused) {
    pthread_mutex_lock(&a);
    sem_post(&waiting);
    while (!a_done)
        pthread_cond_wait(&c, &a); // finds: two-mutexes
    pthread_mutex_unlock(&a);
    return unused;
}

static void *waits_with_b(void *unused) {
    pthread_mutex_lock(&b);
    sem_post(&waiting);
    while (!b_done)
        pthread_cond_wait(&c, &b); // finds: two-mutexes
    pthread_mutex_unlock(&b);
    return unused;
}

int main(void) {
    pthread_t one, other;
    sem_init(&waiting, 0, 0);
    pthread_create(&one, 0, waits_with_a, 0);
    pthread_create(&other, 0, waits_with_b, 0);
    sem_wait(&waiting);
    sem_wait(&waiting);
    pthread_mutex_lock(&a);
    a_done = 1;
    pthread_mutex_unlock(&a);
    pthread_mutex_lock(&b);
    b_done = 1;
    pthread_mutex_unlock(&b);
    pthread_cond_broadcast(&c);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return 0;
}

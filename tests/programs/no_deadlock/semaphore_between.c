// The second order begins only after the post that ends the first.
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t p = PTHREAD_MUTEX_INITIALIZER;
static sem_t s;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&p);
    pthread_mutex_unlock(&p);
    pthread_mutex_unlock(&m);
    sem_post(&s);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    sem_wait(&s);
    pthread_mutex_lock(&p);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    pthread_mutex_unlock(&p);
    pthread_join(thread, 0);
    return 0;
}

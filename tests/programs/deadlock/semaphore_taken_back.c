// Main may take back its own post, and the worker waits for ever.
#include <pthread.h>
#include <semaphore.h>

static sem_t s;

static void *worker(void *unused) {
    sem_wait(&s); // finds: stuck
    sem_post(&s);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    sem_post(&s);
    sem_wait(&s);
    pthread_join(thread, 0);
    return 0;
}

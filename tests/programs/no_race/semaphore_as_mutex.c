// A semaphore of one unit.
#include <pthread.h>
#include <semaphore.h>

static sem_t s;
static int shared;

static void *worker(void *unused) {
    sem_wait(&s);
    shared++;
    sem_post(&s);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&s, 0, 1);
    pthread_create(&thread, 0, worker, 0);
    sem_wait(&s);
    shared++;
    sem_post(&s);
    pthread_join(thread, 0);
    return 0;
}

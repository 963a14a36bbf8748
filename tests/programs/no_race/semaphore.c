// The post orders what came before it.
#include <pthread.h>
#include <semaphore.h>

static sem_t s;
static int shared;

static void *worker(void *unused) {
    sem_wait(&s);
    shared++;
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    shared = 1;
    sem_post(&s);
    pthread_join(thread, 0);
    return 0;
}

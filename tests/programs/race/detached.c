// A detached thread races with main, which waits for its semaphores only.
#include <pthread.h>
#include <semaphore.h>

static sem_t started, finished;
static int shared;

static void *worker(void *unused) {
    sem_post(&started);
    shared = 1; // finds: data-race write, with line 22
    sem_post(&finished);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&started, 0, 0);
    sem_init(&finished, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    pthread_detach(thread);
    sem_wait(&started);
    shared = 2; // finds: data-race write, with line 10
    sem_wait(&finished);
    return 0;
}

// A detached thread ends, and its stack is used again by another.
#include <pthread.h>
#include <semaphore.h>

static sem_t done;

static void *worker(void *unused) {
    volatile int local[16];
    for (int i = 0; i < 16; i++)
        local[i] = i;
    sem_post(&done);
    return unused;
}

int main(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, worker, 0);
        pthread_detach(thread);
        sem_wait(&done);
    }
    return 0;
}

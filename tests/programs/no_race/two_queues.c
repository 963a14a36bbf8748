// One semaphore hands the data over, another hands it back.
#include <pthread.h>
#include <semaphore.h>

static sem_t there, back;
static int value;

static void *worker(void *unused) {
    for (int i = 0; i < 3; i++) {
        sem_wait(&there);
        value++;
        sem_post(&back);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    for (int i = 0; i < 3; i++) {
        value++;
        sem_post(&there);
        sem_wait(&back);
    }
    pthread_join(thread, 0);
    return 0;
}

// Thousands of short threads, joined and detached.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t done;
static int counter;

static void *works(void *argument) {
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_mutex_unlock(&mutex);
    if (argument)
        sem_post(&done);
    return 0;
}

int main(void) {
    sem_init(&done, 0, 0);
    for (int round = 0; round < 200; round++) {
        pthread_t threads[10];
        for (int i = 0; i < 10; i++)
            pthread_create(&threads[i], 0, works, i % 2 ? &done : 0);
        for (int i = 0; i < 10; i++)
            if (i % 2)
                pthread_detach(threads[i]);
            else
                pthread_join(threads[i], 0);
        for (int i = 0; i < 5; i++)
            sem_wait(&done);
    }
    pthread_mutex_lock(&mutex);
    printf("%d\n", counter);
    return 0;
}

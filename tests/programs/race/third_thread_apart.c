// A semaphore orders two of the threads; nothing orders the third.
#include <pthread.h>
#include <semaphore.h>

static sem_t done;
static int value;

static void *first(void *unused) {
    value = 1; // finds: data-race write, with line 21
    sem_post(&done);
    return unused;
}

static void *second(void *unused) {
    sem_wait(&done);
    value = 2; // finds: data-race write, with line 21
    return unused;
}

static void *alone(void *unused) {
    value = 3; // finds: data-race write, with lines 9, 16
    return unused;
}

int main(void) {
    pthread_t threads[3];
    sem_init(&done, 0, 0);
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    pthread_create(&threads[2], 0, alone, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}

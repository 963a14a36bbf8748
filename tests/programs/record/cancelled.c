// Threads that are cancelled: in a wait, in a semaphore, and in the middle of a loop.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t started, never;
static volatile int values[64];

static void unlock(void *argument) {
    pthread_mutex_unlock(&mutex); // records: T0.1 unlock
    (void)argument;
}

static void *waits(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, 0);
    sem_post(&started);
    for (;;)
        pthread_cond_wait(&condition, &mutex); // records: T0.1 unlock, T0.1 failed-wait, T0.1 lock
    pthread_cleanup_pop(1);
    return argument;
}

static void *sleeps(void *argument) {
    sem_post(&started);
    sem_wait(&never);
    return argument;
}

static void *spins(void *argument) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    sem_post(&started);
    for (int i = 0;; i++)
        values[i % 64] = i;
    return argument;
}

int main(void) {
    void *(*routines[])(void *) = {waits, sleeps, spins};
    sem_init(&started, 0, 0);
    sem_init(&never, 0, 0);
    for (int i = 0; i < 30; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, routines[i % 3], 0);
        while (sem_wait(&started) != 0)
            ;
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        pthread_cancel(thread);
        void *result;
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            puts("not cancelled");
    }
    puts("done");
    return 0;
}

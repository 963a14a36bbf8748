// A wait is unlock, wait, lock; a wait that times out is unlock, failed wait, lock.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, arrived = PTHREAD_COND_INITIALIZER;
static int waiting, ready;

static void *waits(void *argument) {
    pthread_mutex_lock(&mutex);
    waiting++;
    pthread_cond_signal(&arrived); // records: T0.1 signal
    while (ready < 2)
        pthread_cond_wait(&condition, &mutex); // records: T0.1 unlock, T0.1 wait, T0.1 lock
    pthread_mutex_unlock(&mutex);
    return argument;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, waits, 0);
    pthread_mutex_lock(&mutex);
    while (waiting < 2)
        pthread_cond_wait(&arrived, &mutex);
    ready = 2;
    pthread_cond_broadcast(&condition); // records: T0 broadcast
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);

    struct timespec past = {0, 0};
    pthread_mutex_lock(&mutex);
    int result = pthread_cond_timedwait(&condition, &mutex, &past); // records: T0 unlock, T0 failed-wait, T0 lock, T0 no wait
    pthread_mutex_unlock(&mutex);
    printf("%d %d\n", waiting, result == ETIMEDOUT);
    return 0;
}

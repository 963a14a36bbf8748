// A timer signal runs a handler with accesses and a sem_post inside hooks of busy threads.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t sem;
static volatile int handled, values[256];
static int total;
static __thread volatile int mine;

static void handle(int signal) {
    mine++;
    if (handled < 40) {
        handled = handled + 1; // records: write
        sem_post(&sem); // records: sem-post
    }
    values[handled % 256] = signal;
}

static void *works(void *argument) {
    for (int round = 0; handled < 40 || round < 5; round++) {
        for (int i = 0; i < 256; i++)
            values[i] = values[(i * 7) % 256] + 1;
        pthread_mutex_lock(&mutex);
        total++;
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

int main(void) {
    sem_init(&sem, 0, 0);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, works, 0);
    struct itimerval timer = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &timer, 0);
    // Two handlers may count as one: what counts is `handled`, not the number of posts.
    while (handled < 40)
        sem_wait(&sem);
    timer.it_value.tv_usec = 0;
    setitimer(ITIMER_REAL, &timer, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    puts("done");
    return 0;
}

// A function that a timer calls in a thread of its own comes after whoever set the timer.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static int value, got;
static sem_t done;

static void ring(union sigval argument) {
    (void)argument;
    got = value;
    sem_post(&done);
}

static void *set_timer(void *arg) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = ring};
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) return arg;
    value = 42;
    timer_settime(timer, 0, &soon, 0);
    sem_wait(&done);
    return 0;
}

int main(void) {
    pthread_t thread;
    sem_init(&done, 0, 0);
    pthread_create(&thread, 0, set_timer, 0);
    pthread_join(thread, 0);
    return got != 42;
}

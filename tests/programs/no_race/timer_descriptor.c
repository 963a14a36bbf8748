// What is read from the descriptor of a timer comes after whoever set the timer.
#include <pthread.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int timer, value;

static void *await(void *unused) {
    uint64_t expirations;
    if (read(timer, &expirations, sizeof expirations) == sizeof expirations)
        value++;
    return unused;
}

int main(void) {
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    timerfd_settime(timer, 0, &soon, 0);
    pthread_join(thread, 0);
    return value != 2;
}

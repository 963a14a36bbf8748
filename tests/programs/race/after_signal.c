// What is done after a signal was sent is not ordered before its handler.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int value;
static volatile sig_atomic_t seen;

static void handle(int number) {
    (void)number;
    seen = 1 + value; // finds: data-race read, with line 25
}

static void *wait_for_signal(void *arg) {
    while (!seen) usleep(1000);
    return arg;
}

int main(void) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, 0);
    pthread_create(&thread, 0, wait_for_signal, 0);
    pthread_kill(thread, SIGUSR1);
    value = 1; // finds: data-race write, with line 11
    pthread_join(thread, 0);
    return seen > 2;
}

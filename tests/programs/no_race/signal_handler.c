// A handler comes after what was done before it was installed, and before the signal was sent.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int installed, sent;
static volatile sig_atomic_t seen;

static void handle(int number) { seen = installed + sent + (number == SIGUSR1); }

static void *wait_for_signal(void *arg) {
    while (!seen) usleep(1000);
    return arg;
}

int main(void) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = handle};
    pthread_create(&thread, 0, wait_for_signal, 0);
    installed = 1;
    sigaction(SIGUSR1, &action, 0);
    sent = 1;
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, 0);
    return seen != 3;
}

// Handlers that run on a stack of their own, which each thread frees when it is done.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static int handled;

static void handle(int signal) {
    (void)signal;
    handled++;
}

static void *work(void *unused) {
    stack_t own = {.ss_size = 65536, .ss_sp = malloc(65536)};
    sigaltstack(&own, 0);
    raise(SIGUSR1);
    own.ss_flags = SS_DISABLE;
    sigaltstack(&own, 0);
    free(own.ss_sp);
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, work, 0);
        pthread_join(thread, 0);
    }
    return handled != 2;
}

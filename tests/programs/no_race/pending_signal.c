// A thread asks until the signal of the other one is there.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

static int value;

static void *send(void *arg) {
    value = 1;
    kill(getpid(), SIGTERM);
    return arg;
}

int main(void) {
    sigset_t signals, pending;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, 0);
    pthread_t thread;
    pthread_create(&thread, 0, send, 0);
    do {
        sched_yield();
        sigpending(&pending);
    } while (!sigismember(&pending, SIGTERM));
    value++;
    pthread_join(thread, 0);
    return value != 2;
}

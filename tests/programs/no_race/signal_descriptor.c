// A signal that is read from a descriptor comes after whoever sent it.
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int descriptor, value;

static void *receive(void *unused) {
    struct signalfd_siginfo signal;
    if (read(descriptor, &signal, sizeof signal) == sizeof signal)
        value++;
    return unused;
}

int main(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, 0);
    descriptor = signalfd(-1, &signals, 0);
    pthread_t thread;
    pthread_create(&thread, 0, receive, 0);
    value = 1;
    kill(getpid(), SIGUSR1);
    pthread_join(thread, 0);
    return value != 2;
}

// A thread that waits for a signal comes after whoever sent it; a timer carries on who set it.
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

static sigset_t signals;
static int first, second, third, file;

static void *wait_for_signals(void *arg) {
    int number;
    struct signalfd_siginfo information;
    if (sigwait(&signals, &number) || number != SIGUSR1 || first != 1) return arg;
    second = 2;
    kill(getpid(), SIGUSR2);
    sigwait(&signals, &number);
    if (number != SIGALRM || third != 3) return arg;
    (void)information;
    return 0;
}

int main(void) {
    pthread_t thread;
    sigset_t second_signal;
    struct signalfd_siginfo information;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGALRM);
    sigemptyset(&second_signal);
    sigaddset(&second_signal, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, 0);
    sigprocmask(SIG_BLOCK, &second_signal, 0);
    file = signalfd(-1, &second_signal, 0);
    pthread_create(&thread, 0, wait_for_signals, 0);
    first = 1;
    kill(getpid(), SIGUSR1);
    if (read(file, &information, sizeof information) != sizeof information) return 1;
    third = second + 1;
    struct itimerval soon = {.it_value.tv_usec = 1000};
    setitimer(ITIMER_REAL, &soon, 0);
    pthread_join(thread, 0);
    return 0;
}

// What a program asks about its signals is what it has set, and handlers get what the kernel passes.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t count, number, value, on_other_stack;
static char other_stack[65536];
static sigjmp_buf place;

static void plain(int signal) {
    number = signal;
    count++;
    errno = EXDEV;
}

static void with_information(int signal, siginfo_t *information, void *context) {
    char here;
    number = signal;
    value = information->si_code == SI_QUEUE ? information->si_value.sival_int : -1;
    on_other_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
    count += context != 0;
}

static void jump(int signal) { siglongjmp(place, signal); }

static void show(const char *what) {
    printf("%s: count %d number %d value %d stack %d\n", what, (int)count, (int)number, (int)value, (int)on_other_stack);
}

static void ask(const char *what, int signal) {
    struct sigaction action;
    sigaction(signal, 0, &action);
    const char *name = action.sa_handler == SIG_DFL                     ? "default"
                       : action.sa_handler == SIG_IGN                   ? "ignored"
                       : action.sa_handler == plain                     ? "plain"
                       : action.sa_handler == jump                      ? "jump"
                       : action.sa_sigaction == with_information        ? "information"
                                                                        : "another";
    printf("%s: %s flags %x mask %d\n", what, name, action.sa_flags & ~0x04000000, sigismember(&action.sa_mask, SIGUSR2));
}

static void *all(void *arg) {
    struct sigaction action = {.sa_handler = plain}, old;
    ask("first", SIGUSR1);
    sigaddset(&action.sa_mask, SIGUSR2);
    printf("set %d\n", sigaction(SIGUSR1, &action, &old));
    printf("old is default %d\n", old.sa_handler == SIG_DFL);
    ask("plain", SIGUSR1);
    raise(SIGUSR1);
    show("raised");
    action.sa_sigaction = with_information;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGUSR1, &action, &old);
    printf("old is plain %d\n", old.sa_handler == plain);
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, 0);
    pthread_sigqueue(pthread_self(), SIGUSR1, (union sigval){.sival_int = 42});
    show("queued");
    ask("information", SIGUSR1);
    action.sa_handler = plain;
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    show("once");
    ask("reset", SIGUSR1);
    printf("signal %d\n", signal(SIGUSR1, plain) == SIG_DFL);
    printf("signal %d\n", signal(SIGUSR1, SIG_IGN) == plain);
    printf("signal %d\n", signal(SIGUSR1, jump) == SIG_IGN);
    for (int i = 0; i < 3; i++) {
        int came = sigsetjmp(place, 1);
        if (came == 0) raise(SIGUSR1);
        printf("jumped with %d\n", came);
    }
    int result = sigaction(9999, &action, 0);
    printf("bad %d %d\n", result, errno);
    result = sigaction(SIGKILL, &action, 0);
    printf("kill %d %d\n", result, errno);
    printf("bad %d\n", signal(-1, plain) == SIG_ERR);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_kill(pthread_self(), SIGUSR2);
    siginfo_t information;
    printf("waited for %d\n", sigwaitinfo(&set, &information));
    struct timespec soon = {0, 1000000};
    result = sigtimedwait(&set, &information, &soon);
    printf("timed out %d %d\n", result, errno);
    signal(SIGALRM, plain);
    count = 0;
    struct itimerval timer = {.it_value.tv_usec = 20000};
    setitimer(ITIMER_REAL, &timer, 0);
    while (count == 0) usleep(1000);
    show("alarm");
    timer_t clock;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec time = {.it_value.tv_nsec = 20000000};
    timer_create(CLOCK_MONOTONIC, &event, &clock);
    timer_settime(clock, 0, &time, 0);
    while (count == 1) usleep(1000);
    show("timer");
    return arg;
}

int main(void) {
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_create(&thread, 0, all, 0);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_join(thread, 0);
    signal(SIGTERM, SIG_DFL);
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}

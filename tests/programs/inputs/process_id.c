// Appends its process id to the file that is given, and whether calls that take or tell the id agree on it:
// those of the process itself, of a signal handler, and of a child, which has an id of its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t sender;
static int count;

static void note_sender(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    sender = information->si_pid;
}

static int agrees(void) {
    struct sigaction action = {.sa_sigaction = note_sender, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    cpu_set_t set;
    pid_t own = getpid();
    return syscall(SYS_getpid) == own && gettid() == own && getpgid(own) == getpgrp() &&
           sched_getaffinity(own, sizeof set, &set) == 0 && kill(own, SIGUSR1) == 0 && sender == own;
}

static int child_agrees(void) {
    pid_t own = getpid();
    pid_t child = fork();
    if (!child) {
        _exit(getpid() != own && getppid() == own ? 0 : 1);
    }
    int status = 1;
    return waitpid(child, &status, 0) == child && status == 0;
}

static void *bump(void *unused) {
    count++; // the race
    return unused;
}

int main(int number, char **words) {
    if (number < 2) {
        return 2;
    }
    const char *own = agrees() ? "agrees" : "differs";
    const char *in_child = child_agrees() ? "agrees" : "differs";
    pthread_t one, other;
    pthread_create(&one, 0, bump, 0);
    pthread_create(&other, 0, bump, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    FILE *file = fopen(words[1], "a");
    fprintf(file, "%d %s %s\n", getpid(), own, in_child);
    fclose(file);
    return 0;
}

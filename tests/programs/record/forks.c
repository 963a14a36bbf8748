// fork in a threaded program: the child goes on, with threads of its own, and reports back.
// warns
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;
static int counter;

static void before(void) { pthread_mutex_lock(&mutex); }  // records: T0 lock x3
static void after(void) { pthread_mutex_unlock(&mutex); } // records: T0 unlock x3

static void *spins(void *argument) {
    while (!stop) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    return argument;
}

static void *adds(void *argument) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        ++*(int *)argument;
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}

int main(void) {
    pthread_atfork(before, after, after);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, spins, 0);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            int sum = 0;
            pthread_t workers[2];
            for (int k = 0; k < 2; k++)
                pthread_create(&workers[k], 0, adds, &sum);
            for (int k = 0; k < 2; k++)
                pthread_join(workers[k], 0);
            _exit(sum == 400 ? i : 99);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
    }
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 5", (char *)0);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));
    printf("system %d\n", WEXITSTATUS(system("exit 6")));
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    fflush(stdout);
    execl("/bin/sh", "sh", "-c", "echo replaced; exit 3", (char *)0);
    return 1;
}

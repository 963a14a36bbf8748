// A signal from one thread ends the process that another one waits for.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int value;
static pid_t child;

static void *await(void *arg) {
    if (waitpid(child, 0, 0) == child) value++;
    return arg;
}

int main(void) {
    child = fork();
    if (child == 0)
        for (;;) pause();
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    kill(child, SIGKILL);
    pthread_join(thread, 0);
    return value != 2;
}

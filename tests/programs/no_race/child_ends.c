// A child process ends since one thread closes its input; another thread waits for that end.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int input[2], value;
static pid_t child;

static void *await(void *arg) {
    if (waitpid(child, 0, 0) == child) value++;
    return arg;
}

int main(void) {
    if (pipe(input)) return 1;
    child = fork();
    if (child == 0) {
        char byte;
        close(input[1]);
        _exit(read(input[0], &byte, 1) == 1);
    }
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    close(input[1]);
    pthread_join(thread, 0);
    return value != 2;
}

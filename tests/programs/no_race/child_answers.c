// A byte goes to a child process, which answers to another thread.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int there[2], back[2], value;

static void *await(void *arg) {
    char byte;
    if (read(back[0], &byte, 1) == 1) value++;
    return arg;
}

int main(void) {
    if (pipe(there) || pipe(back)) return 1;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        if (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) != 1) _exit(1);
        _exit(0);
    }
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    if (write(there[1], "x", 1) != 1) return 1;
    pthread_join(thread, 0);
    waitpid(child, 0, 0);
    return value != 2;
}

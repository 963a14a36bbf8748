// A pipe that a child process has too: bytes may come from there, but those from threads still order.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2], value;

static void *give(void *arg) {
    char byte;
    value = 42;
    if (write(ends[1], "x", 1) != 1) return &byte != arg ? 0 : arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char bytes[2];
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, give, 0);
    pid_t child = fork();
    if (child == 0) _exit(write(ends[1], "y", 1) != 1);
    for (int i = 0; i < 2; i++) {
        if (read(ends[0], &bytes[i], 1) != 1) return 1;
    }
    int got = value;
    pthread_join(thread, 0);
    waitpid(child, 0, 0);
    return got != 42;
}

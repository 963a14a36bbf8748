// A child process has its own memory.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int value;

static void *worker(void *unused) {
    value++;
    return unused;
}

int main(void) {
    pthread_t thread;
    int status;
    pthread_create(&thread, 0, worker, 0);
    pid_t child = fork();
    if (child == 0) {
        value++;
        _exit(value > 2);
    }
    waitpid(child, &status, 0);
    pthread_join(thread, 0);
    value++;
    return status != 0;
}

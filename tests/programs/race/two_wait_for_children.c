// Each thread waits for a process of its own. That orders nothing that they did before.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int started;

static void *run(void *arg) {
    started++; // finds: data-race, with itself
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, 0, 0);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}

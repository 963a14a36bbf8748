// The threads of a forked child race, those of its parent do not.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int own;
static int shared;

static void *alone(void *unused) {
    own++;
    return unused;
}

static void *racing(void *unused) {
    shared++; // finds: data-race write, with line 15
    return unused;
}

static void run(void *(*body)(void *), int threads) {
    pthread_t all[2];
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], 0, body, 0);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], 0);
}

int main(void) {
    int status;
    run(alone, 1);
    pid_t child = fork();
    if (child == 0) {
        run(racing, 2);
        return 0;
    }
    waitpid(child, &status, 0);
    run(alone, 1);
    return status != 0;
}

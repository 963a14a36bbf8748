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

int main(void) {
    int status;
    pthread_t first, second;
    pthread_create(&first, 0, alone, 0);
    pthread_join(first, 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_create(&first, 0, racing, 0);
        pthread_create(&second, 0, racing, 0);
        pthread_join(first, 0);
        pthread_join(second, 0);
        return 0;
    }
    waitpid(child, &status, 0);
    own++;
    return status != 0;
}

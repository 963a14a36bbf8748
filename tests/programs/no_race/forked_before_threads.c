// A forked child unlocks the mutex that its parent had locked, as handlers of pthread_atfork do. That is
// no misuse, and the parent, which has threads, is the process that is analysed.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int shared;

static void *worker(void *unused) {
    pthread_mutex_lock(&mutex);
    shared++;
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pid_t child = fork();
    pthread_mutex_unlock(&mutex);
    if (child == 0)
        _exit(0);
    waitpid(child, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    worker(0);
    pthread_join(thread, 0);
    return 0;
}

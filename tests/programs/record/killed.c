// SIGKILL at once after the last access: nothing is lost.
// signal: 9
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int values[100000], last;

static void *works(void *argument) {
    for (int i = 0; i < 100000; i++)
        values[i] = i; // records: T0.1 write x100000
    pthread_mutex_lock(&mutex);
    last = 1; // records: T0.1 write x1
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, works, 0);
    pthread_join(thread, 0);
    return 0;
}

// The process is killed just after the misuse: it is found all the same.
#include <pthread.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(void) {
    pthread_mutex_unlock(&mutex); // finds: unlock-not-locked
    raise(SIGKILL);
    return 0;
}

// An error-checking and a recursive mutex refuse the unlock of a thread that does not own them.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int refused;

static void *worker(void *unused) {
    refused += pthread_mutex_unlock(&checking) == EPERM;  // finds: unlock-of-other
    refused += pthread_mutex_unlock(&recursive) == EPERM; // finds: unlock-not-locked
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&checking);
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    pthread_mutex_unlock(&checking);
    return refused != 2;
}

// Nothing here is misuse: locks taken before the first thread, recursive levels given back in another
// function, a robust mutex of a dead thread, a mutex kept over the end of main's last use, an
// error-checking mutex that is asked twice.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t early = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t robust;
static int count;

static void give_back(void) {
    pthread_mutex_unlock(&recursive);
}

static void *worker(void *unused) {
    pthread_mutex_lock(&early);
    count++;
    pthread_mutex_unlock(&early);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    give_back();
    give_back();
    pthread_mutex_lock(&checking);
    if (pthread_mutex_lock(&checking) != EDEADLK)
        count = -100;
    pthread_mutex_unlock(&checking);
    pthread_mutex_lock(&robust);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_mutex_lock(&early);
    pthread_create(&thread, 0, worker, 0);
    count++;
    pthread_mutex_unlock(&early);
    pthread_join(thread, 0);
    if (pthread_mutex_lock(&robust) != EOWNERDEAD)
        return 1;
    pthread_mutex_consistent(&robust);
    pthread_mutex_unlock(&robust);
    pthread_mutex_destroy(&robust);
    pthread_mutex_lock(&kept);
    return count != 2;
}

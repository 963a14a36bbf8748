// A thread ends with a robust mutex; the next owner is told so, and comes after it.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

static pthread_mutex_t m;
static int value;

static void *leave(void *arg) {
    if (pthread_mutex_lock(&m) == EOWNERDEAD) pthread_mutex_consistent(&m);
    value++;
    return arg;
}

int main(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&m, &attributes);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, leave, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return value != 2;
}

// Every kind of mutex, and the ways in which a lock fails.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive, checking, robust;
static pthread_spinlock_t spin;
static int shared;

static void *dies_with_the_lock(void *argument) {
    pthread_mutex_lock(&robust); // records: T0.1 lock robust
    return argument;
}

static void *tries(void *argument) {
    struct timespec past = {0, 0};
    printf("try %d\n", pthread_mutex_trylock(&normal) == EBUSY);                // records: T0.2 failed-lock mutex
    printf("timed %d\n", pthread_mutex_timedlock(&normal, &past) == ETIMEDOUT); // records: T0.2 failed-lock mutex
    printf("clock %d\n",
           pthread_mutex_clocklock(&normal, CLOCK_MONOTONIC, &past) == ETIMEDOUT); // records: T0.2 failed-lock mutex
    printf("spin %d\n", pthread_spin_trylock(&spin) == EBUSY);                     // records: T0.2 failed-lock spin
    printf("not mine %d\n", pthread_mutex_unlock(&checking) == EPERM);             // records: T0.2 no unlock
    return argument;
}

int main(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_spin_init(&spin, 0);

    pthread_t thread;
    pthread_create(&thread, 0, dies_with_the_lock, 0); // records: T0 fork
    pthread_join(thread, 0);                           // records: T0 join
    printf("owner died %d\n", pthread_mutex_lock(&robust) == EOWNERDEAD); // records: T0 lock robust
    pthread_mutex_consistent(&robust);
    pthread_mutex_unlock(&robust); // records: T0 unlock robust

    pthread_mutex_lock(&recursive); // records: T0 lock recursive
    pthread_mutex_lock(&recursive); // records: T0 lock recursive
    shared++;                       // records: T0 write
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive); // records: T0 unlock recursive

    pthread_mutex_lock(&checking);                                   // records: T0 lock error-checking
    printf("again %d\n", pthread_mutex_lock(&checking) == EDEADLK);  // records: T0 failed-lock error-checking
    pthread_mutex_lock(&normal);
    pthread_spin_lock(&spin); // records: T0 lock spin
    pthread_create(&thread, 0, tries, 0);
    pthread_join(thread, 0);
    pthread_spin_unlock(&spin); // records: T0 unlock spin
    pthread_mutex_unlock(&normal);
    pthread_mutex_unlock(&checking);
    return 0;
}

// Reader-writer locks, barriers, semaphores and once; some made before the first thread.
// warns
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t *named, unnamed;
static int value;

static void initialise(void) {
    value = 1; // records: T0.1 write
}

static void *works(void *argument) {
    pthread_once(&once, initialise);                              // records: T0.1 once-begin, T0.1 once-end
    pthread_rwlock_rdlock(&lock);                                 // records: T0.1 read-lock
    printf("%d\n", pthread_rwlock_trywrlock(&lock) == EBUSY);     // records: T0.1 failed-lock reader-writer
    pthread_rwlock_unlock(&lock);                                 // records: T0.1 unlock
    sem_post(&unnamed);                                           // records: T0.1 sem-post
    sem_wait(named);                                              // records: T0.1 sem-wait
    pthread_barrier_wait(&barrier);                               // records: T0.1 barrier-enter, T0.1 barrier-exit
    return argument;
}

int main(void) {
    char name[64];
    snprintf(name, sizeof name, "/norns-test-%d", getpid());
    named = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    sem_unlink(name);
    sem_init(&unnamed, 0, 3);
    sem_wait(&unnamed);
    pthread_barrier_init(&barrier, 0, 2);
    pthread_t thread;
    pthread_create(&thread, 0, works, 0); // semaphore 2 and barrier 2 are known by now
    for (int i = 0; i < 3; i++)
        sem_wait(&unnamed);                   // records: T0 sem-wait
    printf("%d\n", sem_trywait(&unnamed));    // records: T0 failed-sem-wait
    sem_post(named);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, 0);
    pthread_once(&once, initialise);                            // records: T0 once-pass
    pthread_rwlock_wrlock(&lock);                               // records: T0 lock reader-writer
    printf("%d\n", pthread_rwlock_tryrdlock(&lock) == EBUSY);   // records: T0 failed-read-lock
    pthread_rwlock_unlock(&lock);
    printf("%d\n", value);
    return 0;
}

// A System V semaphore that is set, not raised, lets the waiting thread go on.
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/sem.h>

union semun {
    int value;
};

static int semaphores, value;

static void *await(void *arg) {
    struct sembuf down = {0, -1, 0};
    if (semop(semaphores, &down, 1) == 0) value++;
    return arg;
}

int main(void) {
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    union semun one = {1};
    semctl(semaphores, 0, SETVAL, one);
    pthread_join(thread, 0);
    semctl(semaphores, 0, IPC_RMID);
    return value != 2;
}

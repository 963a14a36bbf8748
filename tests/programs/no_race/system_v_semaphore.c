// A System V semaphore as a lock.
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/sem.h>

static int semaphore, count;

static void change(int by) {
    struct sembuf act = {0, (short)by, 0};
    semop(semaphore, &act, 1);
}

static void *add(void *arg) {
    for (int i = 0; i < 3; i++) {
        change(-1);
        count++;
        change(1);
    }
    return arg;
}

int main(void) {
    pthread_t threads[2];
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    change(1);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    semctl(semaphore, 0, IPC_RMID);
    return count != 6;
}

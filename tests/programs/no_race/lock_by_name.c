// Whoever creates the file has the lock.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static char path[64];
static int count;

static void *add(void *arg) {
    int file;
    while ((file = open(path, O_CREAT | O_EXCL | O_RDWR, 0600)) < 0) sched_yield();
    count++;
    close(file);
    unlink(path);
    return arg;
}

int main(void) {
    sprintf(path, "/tmp/norns-name-%d", getpid());
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count != 2;
}

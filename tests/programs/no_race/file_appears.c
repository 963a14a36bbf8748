// A thread waits until the other one has created a file.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static char path[64];
static int value;

static void *await(void *arg) {
    while (access(path, F_OK)) sched_yield();
    value++;
    return arg;
}

int main(void) {
    sprintf(path, "/tmp/norns-appears-%d", getpid());
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    close(open(path, O_CREAT | O_RDWR, 0600));
    pthread_join(thread, 0);
    unlink(path);
    return value != 2;
}

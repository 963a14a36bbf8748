// What comes after the creation of a file is not before what its finder does.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static char path[64];
static int value;

static void *await(void *arg) {
    while (access(path, F_OK)) sched_yield();
    value++; // finds: data-race, with line 22
    return arg;
}

int main(void) {
    sprintf(path, "/tmp/norns-after-%d", getpid());
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    close(open(path, O_CREAT | O_RDWR, 0600));
    value = 1; // finds: data-race write, with line 13
    pthread_join(thread, 0);
    unlink(path);
    return 0;
}

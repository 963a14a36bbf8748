// To open one end of a named pipe waits until the other end is opened.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];
static int value;

static void *await(void *arg) {
    int file = open(path, O_RDONLY);
    value++;
    close(file);
    return arg;
}

int main(void) {
    sprintf(path, "/tmp/norns-pipe-%d", getpid());
    if (mkfifo(path, 0600)) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    int file = open(path, O_WRONLY);
    pthread_join(thread, 0);
    close(file);
    unlink(path);
    return value != 2;
}

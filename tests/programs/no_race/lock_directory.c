// Only one thread at a time can create the directory.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];
static int count;

static void *add(void *arg) {
    while (mkdir(path, 0700)) sched_yield();
    count++;
    rmdir(path);
    return arg;
}

int main(void) {
    sprintf(path, "/tmp/norns-directory-%d", getpid());
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count != 2;
}

// Each thread creates a directory of its own, which keeps nobody out.
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int count;

static void *add(void *arg) {
    char path[64];
    sprintf(path, "/tmp/norns-own-%d-%s", getpid(), (char *)arg);
    mkdir(path, 0700);
    count++; // finds: data-race, with itself
    rmdir(path);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, add, "a");
    pthread_create(&threads[1], 0, add, "b");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}

// Bytes that were read from a file come after whoever wrote them there.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int file, value;

static void *give(void *arg) {
    value = 42;
    if (pwrite(file, "x", 1, 0) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char path[] = "/tmp/norns-file-XXXXXX", byte;
    file = mkstemp(path);
    unlink(path);
    pthread_create(&thread, 0, give, 0);
    while (pread(file, &byte, 1, 0) != 1) usleep(1000);
    int got = value;
    pthread_join(thread, 0);
    return got != 42;
}

// A lock of an open file belongs to all threads that use the descriptor.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/norns-open-XXXXXX";
static int file, count;

static void *add(void *arg) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file, F_OFD_SETLKW, &lock)) return arg;
    count++; // finds: data-race, with itself
    return arg;
}

int main(void) {
    file = mkstemp(path);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    unlink(path);
    return 0;
}

// Locks of the process on a file, and a lock through one descriptor, keep no thread of it out.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static int file, first, second;

static void *add(void *arg) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    fcntl(file, F_SETLKW, &lock);
    first++; // finds: data-race write, with line 13
    lock.l_type = F_UNLCK;
    fcntl(file, F_SETLK, &lock);
    flock(file, LOCK_EX);
    second++; // finds: data-race write, with line 17
    flock(file, LOCK_UN);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    char path[] = "/tmp/norns-lock-XXXXXX";
    file = mkstemp(path);
    unlink(path);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return first + second > 4;
}

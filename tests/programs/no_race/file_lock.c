// A lock on a file excludes another thread that has opened the file for itself.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static char path[] = "/tmp/norns-lock-XXXXXX";
static int count;

static void *add(void *arg) {
    int file = open(path, O_RDWR);
    for (int i = 0; i < 3; i++) {
        if (flock(file, LOCK_EX)) return arg;
        count++;
        flock(file, LOCK_UN);
    }
    close(file);
    return 0;
}

int main(void) {
    pthread_t threads[2];
    close(mkstemp(path));
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    unlink(path);
    return count != 6;
}

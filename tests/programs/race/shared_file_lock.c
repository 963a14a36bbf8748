// Both threads lock the file, but only to share it.
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static char path[] = "/tmp/shared_file_lock.XXXXXX";
static int count;

static void *work(void *unused) {
    int file = open(path, O_RDWR);
    flock(file, LOCK_SH);
    count++; // finds: data-race write, with itself
    flock(file, LOCK_UN);
    close(file);
    return unused;
}

int main(void) {
    int file = mkstemp(path);
    pthread_t one, other;
    pthread_create(&one, 0, work, 0);
    pthread_create(&other, 0, work, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    close(file);
    unlink(path);
    return 0;
}

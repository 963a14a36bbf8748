// Readers share the lock on a file, and a writer has it for itself.
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static char path[] = "/tmp/shared_file_lock.XXXXXX";
static int value;

static void *write_value(void *unused) {
    int file = open(path, O_RDWR);
    flock(file, LOCK_EX);
    value++;
    flock(file, LOCK_SH);
    if (value == 0)
        abort();
    close(file);
    return unused;
}

static void *read_value(void *result) {
    int file = open(path, O_RDWR);
    flock(file, LOCK_SH);
    *(int *)result = value;
    flock(file, LOCK_UN);
    close(file);
    return 0;
}

int main(void) {
    int results[2];
    pthread_t threads[3];
    close(mkstemp(path));
    pthread_create(&threads[0], 0, write_value, 0);
    pthread_create(&threads[1], 0, read_value, &results[0]);
    pthread_create(&threads[2], 0, read_value, &results[1]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    unlink(path);
    return results[0] > 1;
}

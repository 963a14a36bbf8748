// Main puts another file in the place of the one that the worker reads, so that the number is open all
// the time: this is how programs avoid to close a descriptor in use.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int file;

static void *worker(void *unused) {
    char byte;
    if (read(file, &byte, 1) < 0)
        return &file;
    return unused;
}

int main(void) {
    pthread_t thread;
    int other = open("/dev/null", O_RDONLY);
    file = open("/dev/zero", O_RDONLY);
    pthread_create(&thread, 0, worker, 0);
    dup2(other, file);
    pthread_join(thread, 0);
    close(file);
    return 0;
}

// Main closes the file while the worker may still write to it.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int file;

static void *worker(void *unused) {
    for (int i = 0; i < 2; i++)
        if (write(file, "x", 1) < 0) // finds: closed-in-use use, with line 19
            break;
    return unused;
}

int main(void) {
    pthread_t thread;
    file = open("/dev/null", O_WRONLY);
    pthread_create(&thread, 0, worker, 0);
    close(file); // finds: closed-in-use destroy, with line 10
    pthread_join(thread, 0);
    return 0;
}

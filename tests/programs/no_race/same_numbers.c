// Threads open, use and close files of their own. They get the same numbers, one after the other, and
// some are closed by the stream that was made of them.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *worker(void *unused) {
    for (int i = 0; i < 4; i++) {
        int file = open("/dev/null", O_WRONLY);
        if (write(file, "x", 1) != 1)
            break;
        if (i % 2)
            close(file);
        else
            fclose(fdopen(file, "w"));
    }
    return unused;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}

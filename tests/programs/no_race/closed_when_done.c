// Descriptors are closed when nobody uses them any more: after a join, under the lock of their last
// user, and at the end of a stream.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int file, users = 2;

static void *writer(void *unused) {
    pthread_mutex_lock(&m);
    if (write(file, "x", 1) == 1 && --users == 0)
        close(file);
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    file = open("/dev/null", O_WRONLY);
    int own = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, writer, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    if (write(own, "x", 1) != 1)
        return 1;
    fclose(fdopen(own, "w"));
    return 0;
}

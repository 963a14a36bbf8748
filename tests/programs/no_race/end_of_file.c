// The end of a stream comes after all that was done before it was closed.
#include <pthread.h>
#include <unistd.h>

static int ends[2], value;

static void *finish(void *arg) {
    value = 42;
    close(ends[1]);
    return arg;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, finish, 0);
    if (read(ends[0], &byte, 1) != 0) return 1;
    int got = value;
    pthread_join(thread, 0);
    return got != 42;
}

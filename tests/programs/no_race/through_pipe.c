// A byte in a pipe comes after what its sender did before.
#include <pthread.h>
#include <unistd.h>

static int ends[2], value;

static void *give(void *arg) {
    value = 42;
    if (write(ends[1], "x", 1) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, give, 0);
    if (read(ends[0], &byte, 1) != 1) return 1;
    int got = value;
    pthread_join(thread, 0);
    return got != 42;
}

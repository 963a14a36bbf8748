// A pipe that was found ready: what its writer did before is over, although nothing was read yet.
#include <poll.h>
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
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, give, 0);
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    if (poll(&polled, 1, -1) != 1) return 1;
    int got = value;
    pthread_join(thread, 0);
    return got != 42;
}

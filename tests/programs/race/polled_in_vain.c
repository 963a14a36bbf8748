// A poll that timed out and a read that found nothing order nothing.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static int ends[2], value;

static void *give(void *arg) {
    value = 42; // finds: data-race write, with line 22
    if (write(ends[1], "x", 1) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pipe(ends) || fcntl(ends[0], F_SETFL, O_NONBLOCK)) return 1;
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    pthread_create(&thread, 0, give, 0);
    if (poll(&polled, 1, 0) == 0 && read(ends[0], &byte, 1) < 0)
        value++; // finds: data-race write, with line 10
    pthread_join(thread, 0);
    return value > 43;
}

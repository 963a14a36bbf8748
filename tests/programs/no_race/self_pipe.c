// A handler that only writes to a pipe, which the main loop polls.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static int ends[2], request;
static pthread_t main_thread;

static void handle(int number) {
    (void)number;
    if (write(ends[1], "s", 1) != 1) _exit(1);
}

static void *ask(void *arg) {
    request = 42;
    pthread_kill(main_thread, SIGUSR1);
    return arg;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pipe(ends)) return 1;
    main_thread = pthread_self();
    signal(SIGUSR1, handle);
    pthread_create(&thread, 0, ask, 0);
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    while (poll(&polled, 1, -1) != 1) {
    }
    if (read(ends[0], &byte, 1) != 1) return 1;
    int got = request;
    pthread_join(thread, 0);
    return got != 42;
}

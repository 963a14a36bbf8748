// The pointer that an event loop gets was given to it by another thread, with all behind it.
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct connection {
    int file, state;
};

static int loop;

static void *run(void *arg) {
    struct epoll_event event;
    if (epoll_wait(loop, &event, 1, -1) != 1) return arg;
    struct connection *connection = event.data.ptr;
    connection->state++;
    free(connection);
    return 0;
}

int main(void) {
    pthread_t thread;
    loop = epoll_create1(0);
    pthread_create(&thread, 0, run, 0);
    struct connection *connection = malloc(sizeof *connection);
    connection->file = eventfd(1, 0);
    connection->state = 7;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(loop, EPOLL_CTL_ADD, connection->file, &event)) return 1;
    pthread_join(thread, 0);
    return 0;
}

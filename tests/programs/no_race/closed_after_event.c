// The event says that the other thread has written, although nobody reads what. What to watch was said
// before there were threads.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int counter, value;

static void *notify(void *arg) {
    value = 1;
    eventfd_write(counter, 1);
    return arg;
}

int main(void) {
    int epoll = epoll_create1(0);
    counter = eventfd(0, 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &event)) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, notify, 0);
    if (epoll_wait(epoll, &event, 1, -1) != 1) return 1;
    value++;
    close(counter);
    pthread_join(thread, 0);
    return value != 2;
}

// Whoever polls goes on when the time is over, as it seldom is.
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static int ends[2], value;

static void *await(void *arg) {
    struct pollfd asked = {ends[0], POLLIN, 0};
    poll(&asked, 1, 20000);
    value++; // finds: data-race, with line 19
    return arg;
}

int main(void) {
    if (pipe(ends)) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1; // finds: data-race write, with line 11
    if (write(ends[1], "x", 1) != 1) return 1;
    pthread_join(thread, 0);
    return 0;
}

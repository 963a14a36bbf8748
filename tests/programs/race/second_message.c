// Only the first of two messages has been received.
#include <pthread.h>
#include <unistd.h>

static int ends[2], first, second;

static void *give(void *arg) {
    first = 1;
    if (write(ends[1], "x", 1) != 1) return arg;
    second = 2; // finds: data-race write, with line 21
    if (write(ends[1], "y", 1) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, give, 0);
    usleep(20000);
    if (read(ends[0], &byte, 1) == 1) first += second; // finds: data-race read, with line 10
    pthread_join(thread, 0);
    return first > 3;
}

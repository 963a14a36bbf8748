// What is done after a byte was sent is not ordered by it.
#include <pthread.h>
#include <unistd.h>

static int ends[2], before, after;

static void *give(void *arg) {
    before = 1;
    if (write(ends[1], "x", 1) != 1) return arg;
    after = 1; // finds: data-race write, with line 20
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, give, 0);
    if (read(ends[0], &byte, 1) != 1) return 1;
    int sum = before + after; // finds: data-race read, with line 10
    pthread_join(thread, 0);
    return sum > 2;
}

// Two threads give a unit each, and one unit has been taken: nothing says whose.
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int counter, left, right;

static void give(void) {
    uint64_t one = 1;
    if (write(counter, &one, sizeof one) != sizeof one) _exit(1);
}

static void *on_the_left(void *arg) {
    left = 1;
    give();
    return arg;
}

static void *on_the_right(void *arg) {
    usleep(50000);
    right = 2; // finds: data-race write, with line 33
    give();
    return arg;
}

int main(void) {
    pthread_t threads[2];
    uint64_t unit;
    counter = eventfd(0, EFD_SEMAPHORE);
    pthread_create(&threads[0], 0, on_the_left, 0);
    pthread_create(&threads[1], 0, on_the_right, 0);
    if (read(counter, &unit, sizeof unit) == sizeof unit) left += right; // finds: data-race read, with line 22
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return left > 3;
}

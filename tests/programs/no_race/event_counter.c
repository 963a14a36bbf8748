// An eventfd as a semaphore: whoever has taken both units comes after both that gave them.
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
    right = 2;
    give();
    return arg;
}

int main(void) {
    pthread_t threads[2];
    counter = eventfd(0, EFD_SEMAPHORE);
    pthread_create(&threads[0], 0, on_the_left, 0);
    pthread_create(&threads[1], 0, on_the_right, 0);
    for (int i = 0; i < 2; i++) {
        uint64_t unit;
        if (read(counter, &unit, sizeof unit) != sizeof unit) return 1;
    }
    int sum = left + right;
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return sum != 3;
}

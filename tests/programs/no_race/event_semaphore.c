// An eventfd that gives one unit at a time is a lock.
#include <pthread.h>
#include <sys/eventfd.h>

static int units, count;

static void *add(void *arg) {
    eventfd_t unit;
    for (int i = 0; i < 3; i++) {
        eventfd_read(units, &unit);
        count++;
        eventfd_write(units, 1);
    }
    return arg;
}

int main(void) {
    units = eventfd(1, EFD_SEMAPHORE);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count != 6;
}

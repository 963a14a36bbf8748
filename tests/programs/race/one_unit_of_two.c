// Two threads give a unit each to an eventfd. One unit has been taken, which says nothing of the other.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int counter, left, right;
static sem_t first_taken;

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
    sem_wait(&first_taken);
    right = 2; // finds: data-race write, with line 38
    give();
    return arg;
}

int main(void) {
    pthread_t threads[2];
    uint64_t unit;
    counter = eventfd(0, EFD_SEMAPHORE);
    sem_init(&first_taken, 0, 0);
    pthread_create(&threads[0], 0, on_the_left, 0);
    pthread_create(&threads[1], 0, on_the_right, 0);
    if (read(counter, &unit, sizeof unit) != sizeof unit) return 1;
    sem_post(&first_taken);
    int sum = left + right; // finds: data-race read, with line 24
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return sum > 3;
}

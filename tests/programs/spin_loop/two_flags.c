// The threads take turns by two plain flags.
#include <pthread.h>

static volatile int there, back;
static int data;

static void *worker(void *unused) {
    while (!there) // spins
        continue;
    data++; // spins
    back = 1; // spins
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 1; // spins
    there = 1; // spins
    while (!back) // spins
        continue;
    data++;
    pthread_join(thread, 0);
    return 0;
}

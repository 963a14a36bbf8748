// The threads take turns by two plain flags.
#include <pthread.h>

static volatile int there, back;
static int data;

static void *worker(void *unused) {
    while (!there) // finds: data-race read, with line 19
        continue;
    data++; // spins
    back = 1; // finds: data-race write, with line 20
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 1; // spins
    there = 1; // finds: data-race write, with line 8
    while (!back) // finds: data-race read, with line 11
        continue;
    data++;
    pthread_join(thread, 0);
    return 0;
}

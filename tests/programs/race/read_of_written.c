// One side only reads.
#include <pthread.h>

static int shared, seen;

static void *worker(void *unused) {
    seen = shared; // finds: data-race read, with line 14
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    shared = 1; // finds: data-race write, with line 7
    pthread_join(thread, 0);
    return 0;
}

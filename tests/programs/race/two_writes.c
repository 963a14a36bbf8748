// Two threads write the same variable with nothing between them.
#include <pthread.h>

static int shared;

static void *worker(void *unused) {
    shared = 1; // finds: data-race write, with line 14
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    shared = 2; // finds: data-race write, with line 7
    pthread_join(thread, 0);
    return 0;
}

// Both threads write after the barrier.
#include <pthread.h>

static pthread_barrier_t b;
static int shared;

static void *worker(void *unused) {
    pthread_barrier_wait(&b);
    shared = 1; // finds: data-race write, with line 18
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&b, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    pthread_barrier_wait(&b);
    shared = 2; // finds: data-race write, with line 9
    pthread_join(thread, 0);
    return 0;
}

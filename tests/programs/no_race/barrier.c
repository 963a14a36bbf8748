// Each side of the barrier has its own writer.
#include <pthread.h>

static pthread_barrier_t b;
static int shared;

static void *worker(void *unused) {
    pthread_barrier_wait(&b);
    shared++;
    pthread_barrier_wait(&b);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&b, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    shared = 1;
    pthread_barrier_wait(&b);
    pthread_barrier_wait(&b);
    shared++;
    pthread_join(thread, 0);
    return 0;
}

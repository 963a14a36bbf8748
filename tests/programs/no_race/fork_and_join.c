// Creation and join order everything.
#include <pthread.h>

static int shared;

static void *worker(void *unused) {
    shared++;
    return unused;
}

int main(void) {
    pthread_t thread;
    shared = 1;
    pthread_create(&thread, 0, worker, 0);
    int local = 0;
    (void)local;
    pthread_join(thread, 0);
    shared++;
    return 0;
}

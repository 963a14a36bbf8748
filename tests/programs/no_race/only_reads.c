// Nobody writes after the threads are started.
#include <pthread.h>

static int shared, seen;

static void *worker(void *unused) {
    seen = shared;
    return unused;
}

int main(void) {
    pthread_t thread;
    shared = 1;
    pthread_create(&thread, 0, worker, 0);
    int mine = shared;
    (void)mine;
    pthread_join(thread, 0);
    return 0;
}

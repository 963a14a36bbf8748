// Both threads change x, which is atomic, at once: no data race, but no lock either.
#include <pthread.h>

_Atomic int x;

static void *worker(void *arg) {
    x = 1;
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    x = 2;
    pthread_join(thread, 0);
    return x > 2;
}

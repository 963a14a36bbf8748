// Neighbouring bytes of one word.
#include <pthread.h>

static char bytes[2];

static void *worker(void *unused) {
    bytes[0] = 1;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    bytes[1] = 2;
    pthread_join(thread, 0);
    return 0;
}

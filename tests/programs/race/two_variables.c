// Two independent races.
#include <pthread.h>

static int first, second;

static void *worker(void *unused) {
    first = 1;  // finds: data-race write
    second = 1; // finds: data-race write
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    first = 2;  // finds: data-race write
    second = 2; // finds: data-race write
    pthread_join(thread, 0);
    return 0;
}

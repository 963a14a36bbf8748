// A library function writes the whole array.
#include <pthread.h>
#include <string.h>

static char array[64];

static void *worker(void *unused) {
    memset(array, 1, sizeof array); // finds: data-race write, with line 15
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    array[3] = 2; // finds: data-race write, with line 8
    pthread_join(thread, 0);
    return 0;
}

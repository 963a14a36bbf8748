// Two independent races.
#include <pthread.h>

static int first, second;

static void *worker(void *unused) {
    first = 1;  // finds: data-race write, with line 15
    second = 1; // finds: data-race write, with line 16
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    first = 2;  // finds: data-race write, with line 7
    second = 2; // finds: data-race write, with line 8
    pthread_join(thread, 0);
    return 0;
}

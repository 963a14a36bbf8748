// The other thread spins on a plain flag: the loop orders the accesses, but C does not define that it does.
#include <pthread.h>

static volatile int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!flag) // spins
        continue;
    seen = data; // spins
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42; // spins
    flag = 1;  // spins
    pthread_join(thread, 0);
    return 0;
}

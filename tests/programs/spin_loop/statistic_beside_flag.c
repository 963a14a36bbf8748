// The loop waits for a plain flag and also reads a statistic, which has nothing to do with when it ends.
#include <pthread.h>

static volatile int flag, turns;
static int data, seen;

static void *worker(void *unused) {
    int last = 0;
    do
        last = turns; // finds: data-race read, with line 20
    while (!flag); // finds: data-race read, with line 21
    seen = data + last; // spins
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42; // spins
    turns = 1; // finds: data-race write, with line 10
    flag = 1;  // finds: data-race write, with line 11
    pthread_join(thread, 0);
    return 0;
}

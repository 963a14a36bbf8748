// The loop yields the processor between two reads of the flag.
#include <pthread.h>
#include <sched.h>

static volatile int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!flag) // finds: data-race read, with line 19
        sched_yield();
    seen = data; // spins
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    data = 42; // spins
    flag = 1;  // finds: data-race write, with line 9
    pthread_join(thread, 0);
    return 0;
}

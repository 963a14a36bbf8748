// The other thread spins on a plain flag. That is a race on the flag; what lies behind it, the loop orders,
// although C does not define that it does.
#include <pthread.h>

static volatile int flag;
static int data, seen;

static void *worker(void *unused) {
    while (!flag) // finds: data-race read, with line 19
        continue;
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

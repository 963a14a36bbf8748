// The loop takes a lock, but not around the flag: only the loop orders the accesses.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile int flag;
static int data, seen, turns;

static void *worker(void *unused) {
    while (!flag) { // finds: data-race read, with line 22
        pthread_mutex_lock(&m);
        turns++;
        pthread_mutex_unlock(&m);
    }
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

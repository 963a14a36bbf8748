// Both threads read, add and write back.
#include <pthread.h>

static int balance;

static void *worker(void *unused) {
    int old = balance;  // finds: data-race read, with line 16
    balance = old + 10; // finds: data-race write, with lines 15, 16
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    int old = balance;  // finds: data-race read, with line 8
    balance = old - 10; // finds: data-race write, with lines 7, 8
    pthread_join(thread, 0);
    return 0;
}

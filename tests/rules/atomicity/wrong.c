// Figure 6.16 of Carril (2017): the other increment can come between the load and the store.
#include <pthread.h>

_Atomic int x;

static void increment(void) {
    int temp = x;
    temp++;
    x = temp;
}

static void *worker(void *arg) {
    increment();
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    increment();
    pthread_join(thread, 0);
    return 0;
}

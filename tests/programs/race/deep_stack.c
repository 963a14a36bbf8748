// Both accesses are at the bottom of a deep recursion.
#include <pthread.h>

static int value;

static void deep(int depth) {
    if (depth > 0)
        deep(depth - 1);
    else
        value++; // finds: data-race, with itself
    __asm__ volatile("");
}

static void *worker(void *unused) {
    deep(200);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    deep(200);
    pthread_join(thread, 0);
    return 0;
}

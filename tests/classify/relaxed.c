// A relaxed flag says nothing about the data.
//
// outputs sc: 0,0 0,2 1,2
// outputs tso: 0,0 0,2 1,2
// outputs weak: 0,0 0,2 1,0 1,2
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static volatile int data;
static atomic_int flag;

static void *publish(void *unused) {
    data = 2;
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, publish, 0);
    int seen_flag = atomic_load_explicit(&flag, memory_order_relaxed);
    int seen_data = data;
    pthread_join(thread, 0);
    printf("%d,%d\n", seen_flag, seen_data);
    return 0;
}

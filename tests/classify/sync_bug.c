// The barrier orders the writers with each other and not with the reader. After the program of Figure 43
// (Kasikci 2015).
//
// ends sc: exit 0
// ends tso: exit 0
// ends weak: exit 0, signal 6
#include <pthread.h>
#include <stdlib.h>

static volatile int data, flag;
static pthread_barrier_t barrier;

static void *publish(void *unused) {
    data = 2;
    flag = 1;
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *repeat(void *unused) {
    data = 2;
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void) {
    pthread_t first, second;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&first, 0, publish, 0);
    pthread_create(&second, 0, repeat, 0);
    if (flag == 1 && data == 0)
        abort();
    pthread_join(first, 0);
    pthread_join(second, 0);
    return 0;
}

// A loop waits for a plain flag. Under the weak model the data behind it can be old; the loop itself ends.
//
// outputs sc: 2
// outputs tso: 2
// outputs weak: 0 2
#include <pthread.h>
#include <stdio.h>

static volatile int data, flag;

static void *publish(void *unused) {
    data = 2;
    flag = 1;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, publish, 0);
    while (!flag)
        ;
    printf("%d\n", data);
    pthread_join(thread, 0);
    return 0;
}

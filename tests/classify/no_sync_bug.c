// As no_sync, with an abort where a reader sees the flag and not the data. After the program of
// Figures 20 and 41 (Kasikci 2015), which reads the data first, so that its abort needs no weak memory.
//
// ends sc: exit 0
// ends tso: exit 0
// ends weak: exit 0, signal 6
#include <pthread.h>
#include <stdlib.h>

static volatile int data, flag;

static void *publish(void *unused) {
    data = 2;
    flag = 1;
    return unused;
}

static void *repeat(void *unused) {
    data = 2;
    return unused;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, 0, publish, 0);
    pthread_create(&second, 0, repeat, 0);
    if (flag == 1 && data == 0)
        abort();
    pthread_join(first, 0);
    pthread_join(second, 0);
    return 0;
}

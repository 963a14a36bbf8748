// options: --memory weak --values --seed 1
// No interleaving shows the flag before the data; a processor that reorders writes does.
#include <pthread.h>
#include <stdlib.h>

static volatile int data, flag;

static void *publish(void *unused) {
    data = 2;
    flag = 1; // class: spec-violated
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, publish, NULL);
    if (flag == 1 && data == 0)
        abort();
    pthread_join(thread, NULL);
    return 0;
}

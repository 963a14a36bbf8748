// The stack of an ended thread is used by the next one.
#include <pthread.h>

static void fill(int *array) {
    for (int i = 0; i < 16; i++)
        array[i] = i;
}

static void *worker(void *unused) {
    int array[16];
    fill(array);
    return unused;
}

int main(void) {
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, worker, 0);
        pthread_join(thread, 0);
    }
    return 0;
}

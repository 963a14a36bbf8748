// A thread started by a thread: creation and join order across both generations.
#include <pthread.h>

static int value;

static void *grandchild(void *unused) {
    value++;
    return unused;
}

static void *child(void *unused) {
    pthread_t thread;
    value++;
    pthread_create(&thread, 0, grandchild, 0);
    pthread_join(thread, 0);
    value++;
    return unused;
}

int main(void) {
    pthread_t thread;
    value++;
    pthread_create(&thread, 0, child, 0);
    pthread_join(thread, 0);
    value++;
    return 0;
}

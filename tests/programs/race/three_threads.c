// The third thread, started by the second, races with main.
#include <pthread.h>

static int shared;

static void *grandchild(void *unused) {
    shared = 1; // finds: data-race write, with line 21
    return unused;
}

static void *child(void *unused) {
    pthread_t thread;
    pthread_create(&thread, 0, grandchild, 0);
    pthread_join(thread, 0);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, child, 0);
    shared = 2; // finds: data-race write, with line 7
    pthread_join(thread, 0);
    return 0;
}

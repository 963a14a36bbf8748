// An exit handler joins the thread before it writes.
#include <pthread.h>
#include <stdlib.h>

static pthread_t thread;
static int value;

static void at_end(void) {
    pthread_join(thread, 0);
    value++;
}

static void *worker(void *unused) {
    value++;
    return unused;
}

int main(void) {
    atexit(at_end);
    pthread_create(&thread, 0, worker, 0);
    return 0;
}

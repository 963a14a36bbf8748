// Both threads call once before they read.
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int value, seen[2];

static void initialise(void) {
    value = 1;
}

static void *worker(void *unused) {
    pthread_once(&once, initialise);
    seen[0] = value;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_once(&once, initialise);
    seen[1] = value;
    pthread_join(thread, 0);
    return 0;
}

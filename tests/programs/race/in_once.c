// The initialiser is called by one thread, the other reads without calling once.
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int value, seen;

static void initialise(void) {
    value = 1; // finds: data-race write, with line 19
}

static void *worker(void *unused) {
    pthread_once(&once, initialise);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    seen = value; // finds: data-race read, with line 8
    pthread_join(thread, 0);
    return 0;
}

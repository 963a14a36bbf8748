// Main reads the result before it joins the thread.
#include <pthread.h>

static int result, seen;

static void *worker(void *unused) {
    result = 42; // finds: data-race write, with line 14
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    seen = result; // finds: data-race read, with line 7
    pthread_join(thread, 0);
    return 0;
}

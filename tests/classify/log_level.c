// Which message a thread prints depends on whether the level was changed before it looked.
#include <pthread.h>
#include <stdio.h>

static int verbose;

static void *worker(void *unused) {
    if (verbose) // class: output-differs
        puts("working, in detail");
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    verbose = 1;
    pthread_join(thread, NULL);
    return 0;
}

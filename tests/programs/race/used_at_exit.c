// An exit handler uses what a thread that was never joined still changes: the end of the process
// orders nothing.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int requests;

static void print_requests(void) {
    printf("%d\n", requests); // finds: data-race read, with line 17
}

static void *serve(void *arg) {
    (void)arg;
    usleep(10000);
    requests++; // finds: data-race write, with line 11
    for (;;)
        pause();
}

int main(void) {
    pthread_t thread;
    atexit(print_requests);
    pthread_create(&thread, 0, serve, 0);
    return 0;
}

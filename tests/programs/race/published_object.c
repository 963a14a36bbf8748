// A pointer is published by a plain store. What it points to is read only where it is seen set.
#include <pthread.h>
#include <stdlib.h>

static int *shared;
static int seen;

static void *worker(void *unused) {
    int *mine = malloc(sizeof *mine);
    *mine = 7; // may find: data-race write, with line 20
    shared = mine; // finds: data-race write, with line 18
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    int *theirs = shared; // finds: data-race read, with line 11
    if (theirs)
        seen = *theirs; // may find: data-race read, with line 10
    pthread_join(thread, 0);
    return 0;
}

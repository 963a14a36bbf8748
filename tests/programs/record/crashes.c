// A crash in one thread: the trace holds what all threads did until then.
// signal: 11
#include <pthread.h>
#include <stdio.h>

static volatile int counter;
static int *volatile nowhere;

static void *works(void *argument) {
    counter = 1;  // records: T0.1 write
    *nowhere = 1; // records: T0.1 write
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, works, 0); // records: T0 fork
    pthread_join(thread, 0);
    return 0;
}

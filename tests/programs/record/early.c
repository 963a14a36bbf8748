// What main did before its first thread: a held mutex is in the trace, a released one is not.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, released = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *works(void *argument) {
    pthread_mutex_lock(&held); // records: T0.1 lock
    counter++;                 // records: T0.1 write
    pthread_mutex_unlock(&held);
    return argument;
}

int main(void) {
    pthread_mutex_lock(&released); // records: no lock
    counter++;                     // records: no write
    pthread_mutex_unlock(&released);
    pthread_mutex_lock(&held); // records: T0 lock
    pthread_t thread;
    pthread_create(&thread, 0, works, 0);
    counter++;                   // records: T0 write
    pthread_mutex_unlock(&held); // records: T0 unlock
    pthread_join(thread, 0);
    printf("%d\n", counter);
    return 0;
}

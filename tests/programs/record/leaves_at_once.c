// _exit from a thread while others run.
// warns
// status: 4
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *spins(void *argument) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        int now = ++counter; // records: T0.2 write
        pthread_mutex_unlock(&mutex);
        if (now > 10000 && argument)
            _exit(4);
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, spins, 0);
    pthread_create(&threads[1], 0, spins, &threads);
    pthread_exit(0); // records: T0 no end
}

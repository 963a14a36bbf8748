// Four threads, shared counters under locks: every access and every lock is there.
#include <pthread.h>
#include <stdio.h>

enum { ROUNDS = 20000 };
static pthread_mutex_t mutexes[4] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                     PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static long counters[4];

static void *works(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutexes[i % 4]);   // records: T0.1 lock x20000, T0.4 lock x20000
        counters[i % 4]++;                     // records: T0.1 write x20000, T0.4 read x20000
        pthread_mutex_unlock(&mutexes[i % 4]); // records: T0.1 unlock x20000, T0.4 unlock x20000
    }
    return argument;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, works, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    printf("%ld\n", counters[0] + counters[1] + counters[2] + counters[3]);
    return 0;
}

// Four threads count under sixteen locks.
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300000, LOCKS = 16 };
static pthread_mutex_t locks[LOCKS];
static long counters[LOCKS];

static void *work(void *number) {
    unsigned seed = (unsigned)(long)number;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        int which = seed >> 16 & (LOCKS - 1);
        pthread_mutex_lock(&locks[which]);
        counters[which]++;
        pthread_mutex_unlock(&locks[which]);
    }
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&locks[i], 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

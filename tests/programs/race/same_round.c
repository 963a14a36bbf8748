// A barrier used again and again orders rounds, not what is within one.
#include <pthread.h>

static pthread_barrier_t barrier;
static int value, other;

static void *worker(void *unused) {
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&barrier);
        if (round == 1)
            value++; // finds: data-race, with line 25
        if (round == 2)
            other++;
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, worker, 0);
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&barrier);
        if (round == 1)
            value++; // finds: data-race, with line 11
        if (round == 1)
            other++;
    }
    pthread_join(thread, 0);
    return 0;
}

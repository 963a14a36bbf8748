// Each thread is woken by the one before it, with more threads asleep than there are cores. All
// accesses are under the lock.
#include <pthread.h>

enum { THREADS = 120 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;

static void *take_turn(void *number) {
    pthread_mutex_lock(&lock);
    while (turn != (long)number)
        pthread_cond_wait(&changed, &lock);
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, take_turn, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return turn != THREADS;
}

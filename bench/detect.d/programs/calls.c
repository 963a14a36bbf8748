// Four threads in a small recursive function: its entry and exit, and three accesses.
#include <pthread.h>

enum { THREADS = 4, DEPTH = 24 };
struct counter { int calls, leaves, sum; char room[52]; };
struct counter counters[THREADS];

__attribute__((noinline)) static int descend(struct counter *counter, int depth) {
    counter->calls++;
    if (depth < 2) {
        counter->leaves++;
        return depth;
    }
    return descend(counter, depth - 1) + descend(counter, depth - 2);
}

static void *work(void *number) {
    struct counter *mine = &counters[(long)number];
    for (int i = 0; i < 20; i++)
        mine->sum += descend(mine, DEPTH);
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

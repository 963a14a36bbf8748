// All locks of an array, upwards in one thread and downwards in the other.
#include <pthread.h>

enum { COUNT = 4 };
static pthread_mutex_t locks[COUNT];

static void release(void) {
    for (int i = 0; i < COUNT; i++) pthread_mutex_unlock(&locks[i]);
}

static void *up(void *unused) {
    for (int i = 0; i < COUNT; i++)
        pthread_mutex_lock(&locks[i]); // candidate: deadlock
    release();
    return unused;
}

static void *down(void *unused) {
    for (int i = COUNT - 1; i >= 0; i--)
        pthread_mutex_lock(&locks[i]); // candidate: deadlock
    release();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < COUNT; i++) pthread_mutex_init(&locks[i], 0);
    pthread_create(&threads[0], 0, up, 0);
    pthread_create(&threads[1], 0, down, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}

// nothing
// Two variables under one lock that nobody changes together.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int hits, misses;

static void *count(void *arg) {
    pthread_mutex_lock(&lock);
    if (arg)
        hits++;
    else
        misses++;
    pthread_mutex_unlock(&lock);
    return arg;
}

static void *show(void *arg) {
    pthread_mutex_lock(&lock);
    int all = hits;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    all += misses;
    pthread_mutex_unlock(&lock);
    return all > 2 ? arg : 0;
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], 0, count, 0);
    pthread_create(&threads[1], 0, count, &threads);
    pthread_create(&threads[2], 0, show, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    printf("%d %d\n", hits, misses);
    return 0;
}

// confirmed: take
// Each critical section is right; what the first one found is no longer true in the second.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int items = 3;

static int count(void) {
    pthread_mutex_lock(&lock);
    int now = items;
    pthread_mutex_unlock(&lock);
    return now;
}

static void remove_some(int some) {
    pthread_mutex_lock(&lock);
    items -= some;
    assert(items >= 0);
    pthread_mutex_unlock(&lock);
}

static void *take(void *arg) {
    int all = count();
    remove_some(all);
    return arg;
}

static void *shrink(void *arg) {
    pthread_mutex_lock(&lock);
    items = items > 1 ? 1 : items;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, take, 0);
    pthread_create(&threads[1], 0, shrink, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

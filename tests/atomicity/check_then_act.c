// confirmed: take
// Each critical section is right; what the first one found is no longer true in the second.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int items = 1;

static int is_empty(void) {
    pthread_mutex_lock(&lock);
    int empty = items == 0;
    pthread_mutex_unlock(&lock);
    return empty;
}

static void remove_one(void) {
    pthread_mutex_lock(&lock);
    items--;
    assert(items >= 0);
    pthread_mutex_unlock(&lock);
}

static void *take(void *arg) {
    if (!is_empty())
        remove_one();
    return arg;
}

static void *clear(void *arg) {
    pthread_mutex_lock(&lock);
    items = 0;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, take, 0);
    pthread_create(&threads[1], 0, clear, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// predicted: update
// The reader can see the state in between; nothing goes wrong here if it does.
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int state, seen;

static void *update(void *arg) {
    pthread_mutex_lock(&lock);
    state = 1;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    state = 2;
    pthread_mutex_unlock(&lock);
    return arg;
}

static void *look(void *arg) {
    pthread_mutex_lock(&lock);
    seen = state;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, update, 0);
    pthread_create(&threads[1], 0, look, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

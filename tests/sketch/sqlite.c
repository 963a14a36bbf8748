// sketch: atomicity or order
// After SQLite bug 1672: the flag that says who is inside is cleared after the mutex is released.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int in_mutex;
static int uses;

static void enter(void) {
    pthread_mutex_lock(&mutex);
    assert(in_mutex == 0); // cause (2)
    in_mutex = 1; // cause (1)
}

static void leave(void) {
    pthread_mutex_unlock(&mutex);
    in_mutex = 0;
}

static void *use(void *unused) {
    enter();
    uses++;
    leave();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, use, 0); // before (1)
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return uses != 2;
}

// What is wrong without a second thread.
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int size, ready;

static int grow(int by) {
    pthread_mutex_lock(&mutex); // candidate: lock-not-released
    if (by < 0)
        return -1; // candidate: lock-not-released
    size += by;
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int put(int new_size) {
    int status = 0;
    pthread_mutex_lock(&mutex); // candidate: self-deadlock
    if (new_size > 10) {
        status = -1;
        goto out;
    }
    size = new_size;
out:
    pthread_mutex_unlock(&mutex);
    return status;
}

static void put_twice(void) {
    pthread_mutex_lock(&mutex); // candidate: self-deadlock
    put(3);
}

static void *worker(void *last) {
    do {
        pthread_mutex_lock(&mutex);
        if (!ready)
            pthread_cond_wait(&changed, &mutex); // candidate: wait-without-loop
        ready = 0;
        pthread_mutex_unlock(&mutex);
    } while (!last);
    return last;
}

int main(int count, char **words) {
    pthread_t thread;
    if (count == 5)
        pthread_mutex_unlock(&mutex); // candidate: unlock-without-lock
    pthread_create(&thread, 0, worker, words);
    if (count == 3) put_twice();
    int status = grow(count) + put(count);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, 0);
    return status;
}

// Waits that are right, in the forms in which people write them.
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct queue {
    pthread_mutex_t lock;
    pthread_mutex_t *also_lock;
    pthread_cond_t changed;
    atomic_int items;
    int stop;
};

static struct queue shared = {PTHREAD_MUTEX_INITIALIZER, &shared.lock, PTHREAD_COND_INITIALIZER, 0, 0};

static void take(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->items == 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->items--;
    pthread_mutex_unlock(&queue->lock);
}

static void take_through_pointer(struct queue *queue) {
    pthread_mutex_lock(queue->also_lock);
    while (!queue->items)
        pthread_cond_wait(&queue->changed, queue->also_lock);
    queue->items--;
    pthread_mutex_unlock(queue->also_lock);
}

// A wrapper: its callers have the loop and the lock.
static void wait_for_change(struct queue *queue) {
    pthread_cond_wait(&queue->changed, &queue->lock);
}

static void take_with_wrapper(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->items)
        wait_for_change(queue);
    queue->items--;
    pthread_mutex_unlock(&queue->lock);
}

// Tests again from the beginning.
static void take_until_stopped(struct queue *queue) {
    for (;;) {
        pthread_mutex_lock(&queue->lock);
        if (!queue->items) {
            if (queue->stop) {
                pthread_mutex_unlock(&queue->lock);
                break;
            }
            pthread_cond_wait(&queue->changed, &queue->lock);
            pthread_mutex_unlock(&queue->lock);
            continue;
        }
        queue->items--;
        pthread_mutex_unlock(&queue->lock);
    }
}

// Tests without the lock first, and with it before the wait.
static void wait_for_items(struct queue *queue) {
    while (!queue->items) {
        pthread_mutex_lock(&queue->lock);
        if (!queue->items)
            pthread_cond_wait(&queue->changed, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
    }
}

// A sleep that can be ended.
static void rest(struct queue *queue) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_mutex_lock(&queue->lock);
    pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
    pthread_mutex_unlock(&queue->lock);
}

static void put(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->items++;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void *producer(void *arg) {
    for (int i = 0; i < 4; i++)
        put(arg);
    return 0;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, producer, &shared);
    wait_for_items(&shared);
    take(&shared);
    take_through_pointer(&shared);
    take_with_wrapper(&shared);
    rest(&shared);
    pthread_mutex_lock(&shared.lock);
    shared.stop = 1;
    pthread_mutex_unlock(&shared.lock);
    take_until_stopped(&shared);
    pthread_join(thread, 0);
    return 0;
}

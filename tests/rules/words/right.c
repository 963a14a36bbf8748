// The queue is stopped when its producer has ended.
#include <pthread.h>

struct queue {
    pthread_mutex_t lock;
    int length;
    int is_stopped;
};

static struct queue jobs = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct queue results = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void queue_put(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->length++;
    pthread_mutex_unlock(&queue->lock);
}

static void queue_stop(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->is_stopped = 1;
    pthread_mutex_unlock(&queue->lock);
}

static void *producer(void *arg) {
    queue_put(&jobs);
    return arg;
}

int main(void) {
    pthread_t thread;
    queue_stop(&results);
    pthread_create(&thread, 0, producer, 0);
    pthread_join(thread, 0);
    queue_stop(&jobs);
    return 0;
}

// sketch: order
// After pbzip2 0.9.4: main deletes the queue's mutex while a consumer still works with the queue.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t *lock;
    int items;
};

static struct queue *queue;
static int done;

static void *consumer(void *unused) {
    for (;;) {
        pthread_mutex_t *lock = queue->lock; // cause (2)
        pthread_mutex_lock(lock); // after (1)
        int left = queue->items;
        if (left > 0)
            queue->items = left - 1;
        pthread_mutex_unlock(lock);
        if (left == 0)
            return unused;
        done++;
    }
}

int main(void) {
    queue = malloc(sizeof *queue);
    queue->lock = malloc(sizeof *queue->lock); // before (1)
    pthread_mutex_init(queue->lock, NULL);
    queue->items = 3;
    pthread_t thread;
    pthread_create(&thread, NULL, consumer, NULL); // before (2)
    for (;;) {
        pthread_mutex_lock(queue->lock);
        int left = queue->items;
        pthread_mutex_unlock(queue->lock);
        if (left == 0)
            break;
    }
    queue->lock = NULL; // cause (1)
    pthread_join(thread, NULL);
    printf("%d blocks\n", done);
    return 0;
}

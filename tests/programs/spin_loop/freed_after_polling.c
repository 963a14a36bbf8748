// A worker counts itself after it has read its block; main polls the counter and frees the block. In the
// recorded run the queue's lock orders the free behind the read as well, but only the loop always does.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct worker {
    int id;
};

static volatile int alive;
static pthread_mutex_t count = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument) {
    struct worker *worker = argument;
    volatile int id = worker->id; // spins
    (void)id;
    pthread_mutex_lock(&count);
    alive++; // finds: data-race write, with line 33
    pthread_mutex_unlock(&count);
    pthread_mutex_lock(&queue);
    pthread_mutex_unlock(&queue);
    return 0;
}

int main(void) {
    pthread_t thread;
    struct worker *worker = malloc(sizeof *worker);
    worker->id = 1;
    pthread_create(&thread, 0, work, worker);
    pthread_detach(thread);
    while (alive == 0) // finds: data-race read, with line 20
        continue;
    usleep(20000);
    pthread_mutex_lock(&queue);
    pthread_mutex_unlock(&queue);
    free(worker); // spins
    return 0;
}

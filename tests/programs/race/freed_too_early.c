// Main frees the block once it has seen the count at zero, but the thread that counted still unlocks the
// mutex in it.
#include <pthread.h>
#include <stdlib.h>

struct pool {
    pthread_mutex_t mutex;
    volatile int alive;
};

static void *worker(void *argument) {
    struct pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);   // spins
    pool->alive--;                      // spins // finds: data-race write, with line 26
    pthread_mutex_unlock(&pool->mutex); // finds: use-after-free use, with line 28
    return 0;
}

int main(void) {
    pthread_t thread;
    struct pool *pool = malloc(sizeof *pool);
    pthread_mutex_init(&pool->mutex, 0);
    pool->alive = 1;
    pthread_create(&thread, 0, worker, pool);
    pthread_detach(thread);
    while (pool->alive) // finds: data-race read
        continue;
    free(pool); // spins // finds: use-after-free free
    return 0;
}

// The destructor of thread-specific data runs in its thread, before the join.
#include <pthread.h>
#include <stdlib.h>

static pthread_key_t key;
static int freed;

static void destroy(void *block) {
    free(block);
    freed++;
}

static void *worker(void *unused) {
    int *own = malloc(sizeof *own);
    *own = 1;
    pthread_setspecific(key, own);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_key_create(&key, destroy);
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    freed++;
    return 0;
}

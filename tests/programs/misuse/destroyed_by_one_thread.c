// A program with one thread locks a mutex that it has destroyed.
#include <pthread.h>
#include <stdlib.h>

int main(void) {
    pthread_mutex_t *m = malloc(sizeof *m);
    pthread_mutex_init(m, 0);
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
    pthread_mutex_destroy(m);
    pthread_mutex_lock(m); // finds: use-destroyed use
    free(m);
    return 0;
}

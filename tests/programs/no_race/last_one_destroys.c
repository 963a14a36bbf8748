// Whoever lets go last destroys the mutex and frees the block that it lies in.
#include <pthread.h>
#include <stdlib.h>

struct shared {
    pthread_mutex_t m;
    int users;
};

static void *user(void *argument) {
    struct shared *shared = argument;
    pthread_mutex_lock(&shared->m);
    int left = --shared->users;
    pthread_mutex_unlock(&shared->m);
    if (!left) {
        pthread_mutex_destroy(&shared->m);
        free(shared);
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    struct shared *shared = malloc(sizeof *shared);
    pthread_mutex_init(&shared->m, 0);
    shared->users = 3;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, user, shared);
    user(shared);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

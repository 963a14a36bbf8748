// Two mutexes, one after the other, at the same address are two objects.
// objects: 4 mutex
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mutex;

static void *nothing(void *argument) { return argument; }

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, nothing, 0);
    pthread_join(thread, 0);
    for (int i = 0; i < 2; i++) {
        pthread_mutex_init(&mutex, 0);
        pthread_mutex_lock(&mutex); // records: T0 lock
        pthread_mutex_unlock(&mutex);
        pthread_mutex_destroy(&mutex);
    }
    // In freed memory, never destroyed.
    for (int i = 0; i < 2; i++) {
        pthread_mutex_t *block = malloc(sizeof *block);
        pthread_mutex_init(block, 0);
        pthread_mutex_lock(block); // records: T0 lock
        pthread_mutex_unlock(block);
        free(block); // records: T0 free
    }
    puts("done");
    return 0;
}

// The children race with each other, main with neither.
#include <pthread.h>

static int shared;

static void *worker(void *number) {
    shared = *(int *)number; // finds: data-race write, with itself
    return 0;
}

int main(void) {
    pthread_t threads[2];
    int numbers[2] = {1, 2};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, &numbers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// Every thread has its own element of the array.
#include <pthread.h>

static int array[4];

static void *worker(void *number) {
    array[*(int *)number]++;
    return 0;
}

int main(void) {
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, worker, &numbers[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return array[0] - 1;
}

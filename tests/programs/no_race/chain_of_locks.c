// main hands over to the second thread, which hands over to the third.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int stage, data;

static void await(int wanted) {
    pthread_mutex_lock(&m);
    while (stage < wanted)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
}

static void advance(void) {
    pthread_mutex_lock(&m);
    stage++;
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
}

static void *worker(void *number) {
    await(*(int *)number);
    data++;
    advance();
    return 0;
}

int main(void) {
    pthread_t threads[2];
    int numbers[2] = {1, 2};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, &numbers[i]);
    data = 1;
    advance();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

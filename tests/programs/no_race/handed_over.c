// The data changes hands through a queue: only one thread has it at a time.
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int *slot;

static void *consumer(void *unused) {
    pthread_mutex_lock(&m);
    while (!slot)
        pthread_cond_wait(&c, &m);
    int *item = slot;
    pthread_mutex_unlock(&m);
    *item += 1;
    free(item);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, consumer, 0);
    int *item = malloc(sizeof *item);
    *item = 1;
    pthread_mutex_lock(&m);
    slot = item;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

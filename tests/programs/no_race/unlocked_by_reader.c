// Readers share what a writer has made; the last of them is told by a counter under a mutex.
#include <pthread.h>

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int value, sum[3];

static void *reader(void *argument) {
    int *own = argument;
    for (int i = 0; i < 2; i++) {
        pthread_rwlock_rdlock(&l);
        *own += value;
        pthread_rwlock_unlock(&l);
    }
    return 0;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, reader, &sum[i]);
    pthread_rwlock_wrlock(&l);
    value++;
    pthread_rwlock_unlock(&l);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// Both threads take all locks of an array in one order.
#include <pthread.h>

enum { COUNT = 4 };
static pthread_mutex_t locks[COUNT];

static void *worker(void *unused) {
    for (int i = 0; i < COUNT; i++) pthread_mutex_lock(&locks[i]);
    for (int i = 0; i < COUNT; i++) pthread_mutex_unlock(&locks[i]);
    return unused;
}

int main(void) {
    pthread_t a, b;
    for (int i = 0; i < COUNT; i++) pthread_mutex_init(&locks[i], 0);
    pthread_create(&a, 0, worker, 0);
    pthread_create(&b, 0, worker, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}

// Each side holds a lock for writing, but not the same.
#include <pthread.h>

static pthread_rwlock_t a = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t b = PTHREAD_RWLOCK_INITIALIZER;
static int value;

static void *worker(void *unused) {
    pthread_rwlock_wrlock(&a);
    value++; // finds: data-race, with line 19
    pthread_rwlock_unlock(&a);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_rwlock_wrlock(&b);
    value++; // finds: data-race, with line 10
    pthread_rwlock_unlock(&b);
    pthread_join(thread, 0);
    return 0;
}

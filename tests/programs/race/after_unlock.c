// The last access comes after the unlock.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int counter, seen;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    counter++;
    pthread_mutex_unlock(&m);
    seen = counter; // finds: data-race read, with line 19
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    counter++; // finds: data-race write, with line 11
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

// Without the lock the thread does something else.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int counter, missed;

static void *worker(void *unused) {
    if (pthread_mutex_trylock(&m) == 0) {
        counter++;
        pthread_mutex_unlock(&m);
    } else {
        missed++;
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    counter++;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

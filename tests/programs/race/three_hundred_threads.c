// Three hundred threads; the main thread looks at their count before they have all ended.
#include <pthread.h>

enum { THREADS = 300 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ended;

static void *work(void *unused) {
    pthread_mutex_lock(&lock);
    ended++; // finds: data-race write, with line 20
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, 0);
    int some = ended; // finds: data-race read, with line 11
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return some < 0;
}

// A flag under the lock says which thread owns the data.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int taken, value;

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    int mine = !taken;
    taken = 1;
    pthread_mutex_unlock(&m);
    if (mine)
        value++;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    int mine = !taken;
    taken = 1;
    pthread_mutex_unlock(&m);
    if (mine)
        value++;
    pthread_join(thread, 0);
    return 0;
}

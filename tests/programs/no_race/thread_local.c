// Every thread has its own variable.
#include <pthread.h>

static __thread int own;

static void *worker(void *unused) {
    own++;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    own++;
    pthread_join(thread, 0);
    return 0;
}

// Writes hold the lock, reads do not.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int level, seen;

static void *writer(void *unused) {
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&m);
        level = i; // finds: data-race write, with line 20
        pthread_mutex_unlock(&m);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, writer, 0);
    for (int i = 0; i < 3; i++)
        seen += level; // finds: data-race read, with line 10
    pthread_join(thread, 0);
    return 0;
}

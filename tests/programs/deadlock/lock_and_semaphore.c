// One thread waits for a post while it holds the lock that the posting thread needs.
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static sem_t s;
static int done;

static void *worker(void *unused) {
    pthread_mutex_lock(&m); // finds: stuck
    done = 1;
    pthread_mutex_unlock(&m);
    sem_post(&s);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    sem_wait(&s); // finds: stuck
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

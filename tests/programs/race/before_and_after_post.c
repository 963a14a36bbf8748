// The semaphore orders only what comes before the post.
#include <pthread.h>
#include <semaphore.h>

static sem_t s;
static int shared;

static void *worker(void *unused) {
    sem_wait(&s);
    shared = 1; // finds: data-race write, with line 19
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    sem_post(&s);
    shared = 2; // finds: data-race write, with line 10
    pthread_join(thread, 0);
    return 0;
}

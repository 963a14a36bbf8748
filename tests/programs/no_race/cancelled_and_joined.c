// The clean-up of a cancelled thread comes before its join.
#include <pthread.h>
#include <semaphore.h>

static sem_t never;
static int value;

static void clean_up(void *unused) {
    (void)unused;
    value++;
}

static void *worker(void *unused) {
    pthread_cleanup_push(clean_up, 0);
    sem_wait(&never);
    pthread_cleanup_pop(1);
    return unused;
}

int main(void) {
    pthread_t thread;
    sem_init(&never, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    pthread_cancel(thread);
    pthread_join(thread, 0);
    value++;
    return 0;
}

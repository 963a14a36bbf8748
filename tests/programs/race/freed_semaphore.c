// The semaphore lies in a block that its waiter frees, although the poster may not have posted on it
// for the last time.
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

static sem_t *s;

static void *worker(void *unused) {
    sem_post(s);
    sem_post(s); // finds: use-after-free use, with line 21
    return unused;
}

int main(void) {
    pthread_t thread;
    s = malloc(sizeof *s);
    sem_init(s, 0, 0);
    pthread_create(&thread, 0, worker, 0);
    sem_wait(s);
    free(s); // finds: use-after-free free, with line 11
    pthread_join(thread, 0);
    return 0;
}

// pthread_cancel only requests the end of a thread: until it is joined, its accesses still race.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t never;
static int value;

static void clean_up(void *unused) {
    (void)unused;
    value++; // finds: data-race, with line 26
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
    value++; // finds: data-race, with line 11
    pthread_join(thread, 0);
    return 0;
}

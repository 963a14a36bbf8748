// A thread is cancelled while it runs an initialiser: another one begins it again.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t begun;
static int attempts;

static void initialise(void) {
    if (++attempts == 1) {
        sem_post(&begun);
        for (;;)
            pause();
    }
}

static void *use(void *arg) {
    pthread_once(&once, initialise);
    return arg;
}

int main(void) {
    pthread_t first, second;
    sem_init(&begun, 0, 0);
    pthread_create(&first, 0, use, 0);
    sem_wait(&begun);
    pthread_create(&second, 0, use, 0);
    pthread_cancel(first);
    pthread_join(first, 0);
    pthread_join(second, 0);
    return attempts - 2;
}

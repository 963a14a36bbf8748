// One thread ends the process while the others have not done their work yet.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int counter;

static void *count(void *arg) {
    usleep(20000);
    counter++; // finds: data-race write, with itself
    return arg;
}

static void *leave(void *arg) {
    (void)arg;
    exit(0);
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, count, 0);
    pthread_create(&threads[2], 0, leave, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}

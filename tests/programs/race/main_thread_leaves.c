// The main thread ends by pthread_exit: the process lives on with the others.
#include <pthread.h>
#include <unistd.h>

static int counter;

static void *count(void *arg) {
    usleep(10000);
    counter++; // finds: data-race write, with itself
    return arg;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        pthread_create(&thread, 0, count, 0);
    pthread_exit(0);
}

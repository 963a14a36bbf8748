// main returns while the threads that it has started are still asleep.
#include <pthread.h>
#include <unistd.h>

static int counter;

static void *count(void *arg) {
    usleep(20000);
    counter++; // finds: data-race write, with itself
    return arg;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        pthread_create(&thread, 0, count, 0);
        pthread_detach(thread);
    }
    return 0;
}

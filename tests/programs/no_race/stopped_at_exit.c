// An exit handler stops a thread and waits for it before it uses what the thread has written.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_t thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int stop, turns;

static void *turn(void *arg) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        int end = stop;
        pthread_mutex_unlock(&mutex);
        if (end)
            return arg;
        turns++;
        usleep(1000);
    }
}

static void stop_thread(void) {
    pthread_mutex_lock(&mutex);
    stop = 1;
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, 0);
    turns = 0;
}

int main(void) {
    atexit(stop_thread);
    pthread_create(&thread, 0, turn, 0);
    return 0;
}

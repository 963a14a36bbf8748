// Objects go from one thread to another through a queue under a lock, and the receiver frees them. In
// another order of the critical sections it would find the queue empty. // all refuted
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct job {
    int input;
    struct job *next;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static struct job *queue;
static int closed, sum;

static void *consumer(void *unused) {
    for (int stop = 0; !stop;) {
        pthread_mutex_lock(&m);
        struct job *job = queue;
        if (job)
            queue = job->next;
        else
            stop = closed;
        pthread_mutex_unlock(&m);
        if (job) {
            sum += job->input;
            free(job);
        } else {
            usleep(100);
        }
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, consumer, 0);
    for (int i = 0; i < 3; i++) {
        struct job *job = malloc(sizeof *job);
        job->input = i;
        pthread_mutex_lock(&m);
        job->next = queue;
        queue = job;
        pthread_mutex_unlock(&m);
    }
    pthread_mutex_lock(&m);
    closed = 1;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return sum != 3;
}

// An object goes through a locked queue, but its producer still writes to it afterwards.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct job {
    int input, state;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static struct job *queue;
static int sum;

static void *consumer(void *unused) {
    struct job *job = 0;
    while (!job) {
        pthread_mutex_lock(&m);
        job = queue;
        pthread_mutex_unlock(&m);
        if (!job)
            usleep(200);
    }
    sum = job->input + job->state; // finds: data-race read, with line 36
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, consumer, 0);
    struct job *job = malloc(sizeof *job);
    job->input = 1;
    job->state = 0;
    pthread_mutex_lock(&m);
    queue = job;
    pthread_mutex_unlock(&m);
    job->state = 2; // finds: data-race write, with line 23
    pthread_join(thread, 0);
    free(job);
    return 0;
}

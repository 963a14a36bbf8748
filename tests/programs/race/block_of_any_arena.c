// Whose block lies where depends on which thread asks for memory first: addresses differ from run
// to run, the race does not.
#include <pthread.h>
#include <stdlib.h>

struct job {
    int state;
    int result;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static struct job *jobs[2];
static int seen;

static void *worker(void *argument) {
    int number = argument != 0;
    for (int i = 0; i < 3; i++)
        free(malloc(100 + 50 * number));
    struct job *job = calloc(1, sizeof *job);
    pthread_mutex_lock(&m);
    jobs[number] = job;
    pthread_mutex_unlock(&m);
    job->result = number; // finds: data-race write, with line 38
    return 0;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, worker, 0);
    pthread_create(&threads[1], 0, worker, &seen);
    for (int number = 0; number < 2; number++) {
        struct job *job = 0;
        while (!job) {
            pthread_mutex_lock(&m);
            job = jobs[number];
            pthread_mutex_unlock(&m);
        }
        seen += job->result; // finds: data-race read, with line 23
    }
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return 0;
}

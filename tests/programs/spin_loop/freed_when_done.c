// Main frees a block only after it has seen the last write to it, in a loop on a plain field of the
// block itself. The field races; the free is ordered by the loop.
#include <pthread.h>
#include <stdlib.h>

struct job {
    volatile int running;
    int result;
};

static void *worker(void *argument) {
    struct job *job = argument;
    job->result = 42; // spins
    job->running = 0; // spins // finds: data-race write, with line 24
    return 0;
}

int main(void) {
    pthread_t thread;
    struct job *job = malloc(sizeof *job);
    job->running = 1;
    pthread_create(&thread, 0, worker, job);
    pthread_detach(thread);
    while (job->running) // finds: data-race read, with line 14
        continue;
    free(job); // spins
    return 0;
}

// options: --values --seed 1
// The worker looks whether the buffer is still there, and uses it: in between main may take it away.
#include <pthread.h>
#include <stdlib.h>

static int *buffer;
static int is_gone;

static void *worker(void *unused) {
    if (!is_gone) // class: spec-violated
        *buffer = 5;
    return unused;
}

int main(void) {
    pthread_t thread;
    buffer = malloc(sizeof *buffer);
    pthread_create(&thread, NULL, worker, NULL);
    is_gone = 1; // class: spec-violated
    free(buffer);
    buffer = NULL;
    pthread_join(thread, NULL);
    return 0;
}

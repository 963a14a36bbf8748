// options: --values --seed 1
// Main publishes the configuration after it has started the thread that needs it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int *limit;

static void *worker(void *unused) {
    int *own = limit; // class: spec-violated
    printf("limit %d\n", *own);
    return unused;
}

int main(void) {
    int *made = malloc(sizeof *made);
    *made = 100;
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    limit = made;
    pthread_join(thread, NULL);
    free(made);
    return 0;
}

// sketch: atomicity
// After Apache bug 21287: two threads drop a reference, and both see that it was the last one.
#include <pthread.h>
#include <stdlib.h>

struct object {
    int references;
    char *body;
};

static struct object *cached;

static void *drop(void *unused) {
    __atomic_fetch_sub(&cached->references, 1, __ATOMIC_SEQ_CST); // cause (1) cause (2)
    if (cached->references == 0) // cause (3)
        free(cached->body); // after (1)
    return unused;
}

int main(void) {
    cached = malloc(sizeof *cached);
    cached->references = 2; // before (1)
    cached->body = malloc(100); // before (2)
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, drop, NULL); // before (3)
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    free(cached);
    return 0;
}

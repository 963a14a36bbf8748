// Both workers let a block of their own grow, in whatever bytes the allocator has.
#include <pthread.h>
#include <stdlib.h>

static long bytes;

static void *grow(void *unused) {
    char *text = malloc(24);
    text[0] = 1;
    text = realloc(text, 4000);
    text[3999] = 1;
    bytes += 4000; // finds: data-race, with itself
    free(text);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, grow, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// options: --values --seed 1 --interpret
// With the new count the loop writes behind the block, which the program does not notice.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int count;
static int *table;

static void *grow(void *unused) {
    count = 5; // class: spec-violated
    return unused;
}

int main(void) {
    pthread_t thread;
    table = calloc(4, sizeof *table);
    pthread_create(&thread, NULL, grow, NULL);
    int seen = count; // class: spec-violated
    for (int i = 0; i < seen; i++)
        table[i] = i;
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}

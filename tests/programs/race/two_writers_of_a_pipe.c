// Two that write to the same pipe are not ordered by it.
#include <pthread.h>
#include <unistd.h>

static int ends[2], count;

static void *add(void *arg) {
    count++; // finds: data-race write, with line 8
    if (write(ends[1], "x", 1) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t threads[2];
    char byte;
    if (pipe(ends)) return 1;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 2; i++)
        if (read(ends[0], &byte, 1) != 1) return 1;
    int got = count; // both bytes have come
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return got > 2;
}

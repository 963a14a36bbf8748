// Bytes that a thread moves from one pipe to another bring with them what was done before they were sent.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int first[2], second[2], value;

static void *move(void *arg) {
    splice(first[0], 0, second[1], 0, 1, 0);
    return arg;
}

static void *await(void *arg) {
    char byte;
    if (read(second[0], &byte, 1) == 1) value++;
    return arg;
}

int main(void) {
    if (pipe(first) || pipe(second)) return 1;
    pthread_t mover, reader;
    pthread_create(&mover, 0, move, 0);
    pthread_create(&reader, 0, await, 0);
    value = 1;
    if (write(first[1], "x", 1) != 1) return 1;
    pthread_join(mover, 0);
    pthread_join(reader, 0);
    return value != 2;
}

// Bytes that are copied from file to file come with what was done before.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static int from, to, value;

static void *await(void *arg) {
    char byte;
    while (pread(to, &byte, 1, 0) != 1) sched_yield();
    value++;
    return arg;
}

int main(void) {
    from = memfd_create("from", 0);
    to = memfd_create("to", 0);
    if (write(from, "x", 1) != 1) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    off64_t start = 0, end = 0;
    if (copy_file_range(from, &start, to, &end, 1, 0) != 1) return 1;
    pthread_join(thread, 0);
    return value != 2;
}

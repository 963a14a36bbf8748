// The heap behaves, and its blocks are in the trace.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *works(void *argument) {
    int *block = malloc(10 * sizeof *block); // records: T0.1 allocate
    block[0] = 1;                            // records: T0.1 write
    block = realloc(block, 100000);          // records: T0.1 free, T0.1 allocate
    printf("%d\n", block[0]);
    free(block); // records: T0.1 free
    int *zeros = calloc(100, sizeof *zeros);
    printf("%d\n", zeros[99]);
    free(zeros);
    void *aligned;
    posix_memalign(&aligned, 64, 100); // records: T0.1 allocate
    printf("%d\n", (int)((uintptr_t)aligned % 64));
    free(aligned);
    aligned = aligned_alloc(128, 256);
    printf("%d\n", (int)((uintptr_t)aligned % 128));
    free(aligned);
    free(0);
    char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
    munmap(page, 4096); // records: T0.1 free
    printf("%d\n", mmap(0, 4096, PROT_READ, MAP_PRIVATE, -1, 0) == MAP_FAILED);
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, works, 0);
    pthread_join(thread, 0);
    return 0;
}

// Threads map and unmap memory of their own, often at the same address.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

static void *worker(void *unused) {
    for (int i = 0; i < 4; i++) {
        int *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        page[i] = i;
        page = mremap(page, 8192, 16384, MREMAP_MAYMOVE);
        page[3000] = page[i];
        munmap(page, 16384);
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

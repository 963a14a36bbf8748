// Two bit fields of one word are one memory location.
#include <pthread.h>

static struct {
    unsigned a : 4;
    unsigned b : 4;
} bits;

static void *worker(void *unused) {
    bits.a = 1; // finds: data-race, with line 17
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    bits.b = 1; // finds: data-race, with line 10
    pthread_join(thread, 0);
    return 0;
}

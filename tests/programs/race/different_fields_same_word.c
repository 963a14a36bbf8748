// Two chars of one word are independent; the third is shared.
#include <pthread.h>

static struct { char a, b, c; } s;

static void *worker(void *unused) {
    s.a = 1;
    s.c = 1; // finds: data-race write, with line 16
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    s.b = 2;
    s.c = 2; // finds: data-race write, with line 8
    pthread_join(thread, 0);
    return 0;
}

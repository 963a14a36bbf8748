// User-specified events are scheduling points; they order nothing.
#include <pthread.h>

void __norns_custom(const char *fields, unsigned long length);

static int value;

static void *worker(void *unused) {
    __norns_custom("begin", 6);
    value = 1; // finds: data-race write, with line 20
    __norns_custom("end", 4);
    return unused;
}

int main(void) {
    pthread_t thread;
    __norns_custom("main", 5);
    pthread_create(&thread, 0, worker, 0);
    __norns_custom("begin", 6);
    value = 2; // finds: data-race write, with line 10
    __norns_custom("end", 4);
    pthread_join(thread, 0);
    return 0;
}

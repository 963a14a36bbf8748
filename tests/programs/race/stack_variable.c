// A local variable of main, shared by its address.
#include <pthread.h>

static void *worker(void *argument) {
    *(int *)argument = 1; // finds: data-race write, with line 13
    return 0;
}

int main(void) {
    pthread_t thread;
    int local = 0;
    pthread_create(&thread, 0, worker, &local);
    local = 2; // finds: data-race write, with line 5
    pthread_join(thread, 0);
    return local == 0;
}

// Hand-made synchronisation: the reader waits for a flag, so that it can read the data only after it was written.
#include <pthread.h>
#include <stdio.h>

static int data;
static volatile int ready; 

static void *writer(void *unused) {
    data = 7; // class: single-ordering
    ready = 1; // class: harmless
    return unused;
}

static void *reader(void *unused) {
    while (!ready)
        ;
    printf("data %d\n", data);
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, writer, NULL);
    pthread_create(&two, NULL, reader, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}

// Both threads write the same value: whoever comes first, nobody sees a difference.
#include <pthread.h>
#include <stdio.h>

static int initialised;

static void *worker(void *unused) {
    initialised = 1; // class: harmless
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, worker, NULL);
    pthread_create(&two, NULL, worker, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    printf("initialised %d\n", initialised);
    return 0;
}

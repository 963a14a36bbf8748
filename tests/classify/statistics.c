// A counter that nobody prints is updated without a lock.
#include <pthread.h>
#include <stdio.h>

static long hits;

static void *serve(void *unused) {
    for (int request = 0; request < 3; request++)
        hits++; // class: harmless
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, serve, NULL);
    pthread_create(&two, NULL, serve, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    puts("served");
    return 0;
}

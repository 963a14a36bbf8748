// options: --values --seed 1
// The divisor is set by main, after it has started the thread that divides.
#include <pthread.h>
#include <stdio.h>

static int parts;

static void *share(void *unused) {
    printf("share %d\n", 100 / parts); // class: spec-violated
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, share, NULL);
    parts = 4;
    pthread_join(thread, NULL);
    return 0;
}

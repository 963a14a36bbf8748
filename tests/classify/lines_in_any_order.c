// Threads print in any order; the race between them decides nothing.
#include <pthread.h>
#include <stdio.h>

static int last;

static void *speak(void *name) {
    last = 1; // class: harmless
    printf("%s\n", (const char *)name);
    return NULL;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, speak, "one");
    pthread_create(&two, NULL, speak, "two");
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return last - 1;
}

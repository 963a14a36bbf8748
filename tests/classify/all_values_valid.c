// A hint says where to begin. Every value that it can have leads to the same answer.
#include <pthread.h>
#include <stdio.h>

static int table[4] = {3, 1, 4, 1};
static int hint;

static void *mover(void *unused) {
    hint = 2; // class: harmless
    return unused;
}

static void *finder(void *unused) {
    int best = 0, from = hint;
    for (int step = 0; step < 4; step++) {
        int value = table[(from + step) % 4];
        if (value > best)
            best = value;
    }
    printf("largest %d\n", best);
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, mover, NULL);
    pthread_create(&two, NULL, finder, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}

// options: --values --seed 1
// The cache is emptied while another thread looks at it: the pointer was tested, and is gone when it is used.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct entry {
    int value;
};

static struct entry own = {5};
static struct entry *volatile cached = &own;

static void *empty(void *unused) {
    cached = NULL; // class: spec-violated
    return unused;
}

static void *look(void *unused) {
    if (cached != NULL)
        printf("value %d\n", cached->value);
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, look, NULL);
    pthread_create(&two, NULL, empty, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}

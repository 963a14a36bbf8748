// The index of a buffer is taken without a lock: two producers can put their items into the same slot.
#include <pthread.h>
#include <stdio.h>

static int buffer[4];
static int used;

static void *produce(void *item) {
    int slot = used; // class: output-differs
    buffer[slot] = *(int *)item;
    used = slot + 1;
    return NULL;
}

int main(void) {
    static int items[2] = {1, 2};
    pthread_t producers[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&producers[i], NULL, produce, &items[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(producers[i], NULL);
    printf("%d items\n", used);
    return 0;
}

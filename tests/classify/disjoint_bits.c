// Each thread uses bits of its own in one word. The reader looks only at bits that nobody writes meanwhile.
#include <pthread.h>
#include <stdio.h>

static unsigned flags = 0x10;

static void *writer(void *unused) {
    flags = 0x10 | 0x1; // class: harmless
    return unused;
}

static void *reader(void *unused) {
    if (flags & 0x10)
        puts("ready");
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

// Every access to `shared` is also told by a function that is not instrumented: what it was, where,
// and the value. The trace must hold the same, in the same order.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    long a, b, c, d, e;
} Five;

static struct {
    signed char one;
    short two;
    int four;
    long eight;
    __int128 sixteen;
    Five from, to;
    char bytes[4000];
} shared;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static char *told;
static size_t used;

__attribute__((no_sanitize("thread"), noinline)) static void tell(char what, const volatile void *place, size_t size) {
    // In pieces, as the trace has them.
    for (size_t at = 0; at < size; at += 1024) {
        size_t length = size - at < 1024 ? size - at : 1024;
        const volatile unsigned char *bytes = (const volatile unsigned char *)place + at;
        used += (size_t)sprintf(told + used, "%c %p %zu ", what, (const void *)bytes, length);
        for (size_t i = 0; i < length; i++)
            used += (size_t)sprintf(told + used, "%02x", bytes[i]);
        told[used++] = '\n';
    }
}

#define WRITE(place, value) (place = (value), tell('W', &place, sizeof place))
#define READ(place) ({ __typeof__(place) seen = place; tell('R', &place, sizeof place); seen; })

static void *works(void *argument) {
    long number = (long)argument;
    for (int i = 0; i < 40; i++) {
        WRITE(shared.one, READ(shared.one) + 1);
        WRITE(shared.two, READ(shared.two) * 3 + number);
        WRITE(shared.four, READ(shared.four) ^ (int)(number << i % 16));
        if (i % 8 == 0)
            pthread_mutex_lock(&mutex);
        WRITE(shared.eight, READ(shared.eight) + number * i);
        WRITE(shared.sixteen, READ(shared.sixteen) * 5 + number);
        if (i % 8 == 0)
            pthread_mutex_unlock(&mutex);
    }
    pthread_barrier_wait(&barrier);
    WRITE(shared.from.c, number);
    memcpy(&shared.to, &shared.from, sizeof shared.to);
    tell('R', &shared.from, sizeof shared.from);
    tell('W', &shared.to, sizeof shared.to);
    memset(shared.bytes, (int)number, 3000);
    tell('W', shared.bytes, 3000);
    memmove(shared.bytes + 10, shared.bytes, 20);
    tell('R', shared.bytes, 20);
    tell('W', shared.bytes + 10, 20);
    return 0;
}

int main(void) {
    told = malloc(16 << 20);
    pthread_barrier_init(&barrier, 0, 4);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, works, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    printf("%p %zu\n", (void *)&shared, sizeof shared);
    fwrite(told, 1, used, stdout);
    return 0;
}

// The small programs of bench/record: record CASE ITERATIONS. All work happens in threads that
// were created, since nothing is recorded before the first one.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM = 16 << 20 }; // ints: 64 MB
static volatile int hot[16];
static int *stream;
static struct {
    pthread_mutex_t mutex;
    volatile long counter;
    char apart[64];
} cells[16];
static long iterations;
static int threads = 1;

static void *hot_loop(void *argument) {
    for (long i = 0; i < iterations; i++)
        hot[i & 15]++;
    return argument;
}

static void *stream_loop(void *argument) {
    volatile int *at = stream;
    for (long i = 0; i < iterations; i++)
        at[i & (STREAM - 1)]++;
    return argument;
}

static void *lock_loop(void *argument) {
    unsigned long mine = (unsigned long)argument;
    for (long i = 0; i < iterations / threads; i++) {
        int cell = threads == 1 ? 0 : (int)((i + mine * 4) & 15);
        pthread_mutex_lock(&cells[cell].mutex);
        cells[cell].counter++;
        pthread_mutex_unlock(&cells[cell].mutex);
    }
    return 0;
}

// Ten million accesses a thread: 20 to shared memory in every critical section.
static volatile int shared[16][10];

static void *big_loop(void *argument) {
    for (long i = 0; i < iterations / 20; i++) {
        int cell = (int)((i + (unsigned long)argument) & 15);
        pthread_mutex_lock(&cells[cell].mutex);
        for (int k = 0; k < 10; k++)
            shared[cell][k]++;
        pthread_mutex_unlock(&cells[cell].mutex);
    }
    return 0;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    iterations = atol(words[2]);
    void *(*loop)(void *) = lock_loop;
    if (!strcmp(words[1], "hot"))
        loop = hot_loop;
    if (!strcmp(words[1], "stream")) {
        loop = stream_loop;
        stream = calloc(STREAM, sizeof *stream);
    }
    if (!strcmp(words[1], "big"))
        loop = big_loop;
    if (!strcmp(words[1], "locks4") || loop == big_loop)
        threads = 4;
    for (int i = 0; i < 16; i++)
        pthread_mutex_init(&cells[i].mutex, 0);
    pthread_t handles[4];
    for (long i = 0; i < threads; i++)
        pthread_create(&handles[i], 0, loop, (void *)i);
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], 0);
    return 0;
}

// A server in small: two threads take tasks from a queue, compute, and count in shared variables. What a
// failure of it would depend on is what the threads share: `bench/sketch --cost` watches that.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 30000, WORK = 60000 };

struct queue {
    long next;
    long done;
};

static struct queue *queue;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long total;
long longest;
long errors;
long idle;

/* Nothing that a compiler could shorten. */
static long compute(long seed) {
    unsigned long value = (unsigned long)seed + 1;
    for (int i = 0; i < WORK; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    return (long)(value >> 40);
}

static void *serve(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        long task = queue->next++;
        pthread_mutex_unlock(&lock);
        if (task >= TASKS)
            return unused;
        long value = compute(task);
        pthread_mutex_lock(&lock);
        queue->done++;
        total += value;
        if (value > longest)
            longest = value;
        if (value < 0)
            errors++;
        pthread_mutex_unlock(&lock);
    }
}

int main(void) {
    queue = calloc(1, sizeof *queue);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, serve, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %ld %ld %ld\n", queue->done, total, longest, errors + idle);
    return 0;
}

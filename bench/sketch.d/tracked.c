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
static long above[24];

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

/* The statements further away from the end. */
static void sort_in(long value) {
    if (value > 700000)
        above[0]++;
    if (value > 1400000)
        above[1]++;
    if (value > 2100000)
        above[2]++;
    if (value > 2800000)
        above[3]++;
    if (value > 3500000)
        above[4]++;
    if (value > 4200000)
        above[5]++;
    if (value > 4900000)
        above[6]++;
    if (value > 5600000)
        above[7]++;
    if (value > 6300000)
        above[8]++;
    if (value > 7000000)
        above[9]++;
    if (value > 7700000)
        above[10]++;
    if (value > 8400000)
        above[11]++;
    if (value > 9100000)
        above[12]++;
    if (value > 9800000)
        above[13]++;
    if (value > 10500000)
        above[14]++;
    if (value > 11200000)
        above[15]++;
    if (value > 11900000)
        above[16]++;
    if (value > 12600000)
        above[17]++;
    if (value > 13300000)
        above[18]++;
    if (value > 14000000)
        above[19]++;
    if (value > 14700000)
        above[20]++;
    if (value > 15400000)
        above[21]++;
    if (value > 16100000)
        above[22]++;
    if (value > 16800000)
        above[23]++;
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
        sort_in(value);
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
    printf("%ld %ld %ld %ld\n", queue->done, total, longest, errors + idle + above[0]);
    return 0;
}

// Five threads that compute: hashing, a table in memory, calls. One argument: rounds.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 1024
static long rounds;

static uint32_t mix(uint32_t value) {
    value ^= value >> 15;
    value *= 0x2c1b3c6dU;
    value ^= value >> 12;
    return value;
}

static void *work(void *argument) {
    uint32_t table[SLOTS] = {0}, state = (uint32_t)(uintptr_t)argument;
    for (long round = 0; round < rounds; round++) {
        state = mix(state + (uint32_t)round);
        uint32_t slot = state % SLOTS;
        if (table[slot] & 1)
            table[slot] = table[slot] * 3 + 1;
        else
            table[slot] = table[slot] / 2 + state;
    }
    uintptr_t sum = 0;
    for (int slot = 0; slot < SLOTS; slot++)
        sum = sum * 31 + table[slot];
    return (void *)sum;
}

int main(int count, char **words) {
    rounds = count > 1 ? atol(words[1]) : 200000;
    pthread_t threads[5];
    for (uintptr_t at = 0; at < 5; at++)
        pthread_create(&threads[at], 0, work, (void *)at);
    for (int at = 0; at < 5; at++) {
        void *sum;
        pthread_join(threads[at], &sum);
        printf("%lx\n", (unsigned long)sum);
    }
    return 0;
}

// flags: -mcx16
// compilers: clang
// 16-byte atomics: only clang calls the hooks for them.
#include <pthread.h>
#include <stdio.h>

typedef unsigned __int128 wide;
static wide value;

static void *works(void *argument) {
    for (int i = 0; i < 100; i++)
        __atomic_fetch_add(&value, (wide)1 << 64 | 1, __ATOMIC_SEQ_CST); // records: T0.1 atomic rmw
    return argument;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, works, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    wide expected = 0, seen = __atomic_load_n(&value, __ATOMIC_SEQ_CST);
    int failed = __atomic_compare_exchange_n(&value, &expected, (wide)1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    int done = __atomic_compare_exchange_n(&value, &expected, (wide)5 << 64 | 9, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    wide now = __atomic_exchange_n(&value, 3, __ATOMIC_SEQ_CST);
    printf("%d %d %d %d %d %d\n", (int)seen, (int)(seen >> 64), failed, done, (int)now, (int)(now >> 64));
    return 0;
}

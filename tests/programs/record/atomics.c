// flags: -mcx16
// Atomic operations do what they say, at every width.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define WIDTH(type, name)                                                                          \
    static _Atomic type name;                                                                      \
    static void check_##name(void) {                                                               \
        type old = 5;                                                                              \
        atomic_store(&name, 5);                                                                    \
        printf("%d", (int)atomic_exchange(&name, 7));                                              \
        printf(" %d", (int)atomic_fetch_add(&name, 3));                                            \
        printf(" %d", (int)atomic_fetch_sub(&name, 1));                                            \
        printf(" %d", (int)atomic_fetch_and(&name, 12));                                           \
        printf(" %d", (int)atomic_fetch_or(&name, 3));                                             \
        printf(" %d", (int)atomic_fetch_xor(&name, 6));                                            \
        printf(" %d", (int)__atomic_fetch_nand((type *)&name, 6, __ATOMIC_SEQ_CST));               \
        int failed = atomic_compare_exchange_strong(&name, &old, 9);                               \
        int done = atomic_compare_exchange_strong(&name, &old, 9);                                 \
        printf(" %d %d %d %d\n", failed, done, (int)old, (int)atomic_load(&name));                 \
    }

WIDTH(uint8_t, narrow)
WIDTH(uint16_t, two)
WIDTH(uint32_t, four)
WIDTH(uint64_t, eight)

static atomic_int counter;
static atomic_int flag;
static int data;

static void *counts(void *argument) {
    for (int i = 0; i < 1000; i++)
        atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed); // records: T0.1 atomic rmw
    data = 1;
    atomic_store_explicit(&flag, 1, memory_order_release); // records: T0.1 atomic store
    atomic_thread_fence(memory_order_seq_cst);             // records: T0.1 fence
    return argument;
}

int main(void) {
    check_narrow();
    check_two();
    check_four();
    check_eight();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, counts, 0);
    while (!atomic_load_explicit(&flag, memory_order_acquire)) // records: T0 atomic load
        ;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    check_narrow();
    check_two();
    check_four();
    check_eight();
    printf("%d %d\n", counter, data);
    return 0;
}

// A thread sleeps in a system call that it makes itself, another in a loop without any hook.
// What wakes them comes from a third, so the turn must be taken from both.
#include <pthread.h>
#include <stdio.h>

static int word, flag, written;

__attribute__((no_sanitize("thread"), noinline)) static void futex(int *place, long operation, long value) {
    long result;
    register long time __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(202), "D"(place), "S"(operation), "d"(value), "r"(time) : "rcx", "r11", "memory");
}

__attribute__((no_sanitize("thread"), noinline)) static void spin(volatile int *place) {
    while (!*place)
        ;
}

static void *sleeps(void *argument) {
    written = 1;
    while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE))
        futex(&word, 0, 0);
    written = 2;
    return argument;
}

static void *spins(void *argument) {
    spin(&flag);
    return argument;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, 0, sleeps, 0);
    pthread_create(&two, 0, spins, 0);
    for (int i = 0; i < 100; i++) {
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    flag = 1;
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    futex(&word, 1, 1);
    pthread_join(one, 0);
    pthread_join(two, 0);
    printf("%d\n", written);
    return 0;
}

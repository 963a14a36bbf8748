// A thread that slept in a futex call of its own comes after the one that woke it.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static int word, value, result;

static void *sleep_until_woken(void *arg) {
    if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0)) return arg;
    result = value + 1;
    return 0;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, sleep_until_woken, 0);
    value = 41;
    while (syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0) == 0) usleep(1000);
    pthread_join(thread, 0);
    return result != 42;
}

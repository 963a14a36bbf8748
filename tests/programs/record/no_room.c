// The trace file may not grow: the program does not notice.
// warns
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

static volatile int values[1 << 20];

static void *works(void *argument) {
    for (int i = 0; i < 1 << 20; i++)
        values[i] = i;
    return argument;
}

int main(void) {
    struct rlimit limit = {300000, 300000};
    setrlimit(RLIMIT_FSIZE, &limit);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, works, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("%d\n", values[12345]);
    return 0;
}

// Workers count down by an atomic operation, and main polls the counter by plain reads: these races
// are bugs in C, but what the workers did before is ordered by the loop.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int left = 2;
static int results[2];

static void *work(void *arg) {
    int me = *(int *)arg;
    results[me] = me + 1;           // spins
    __sync_fetch_and_sub(&left, 1); // finds: data-race, with line 22
    return 0;
}

int main(void) {
    pthread_t threads[2];
    int names[2] = {0, 1};
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, &names[i]);
    while (left != 0)               // finds: data-race read, with line 13
        usleep(1000);
    printf("%d\n", results[0] + results[1]); // spins
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

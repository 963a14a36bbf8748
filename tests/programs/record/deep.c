// flags: -O0
// Recursion deeper than the recorder keeps.
#include <pthread.h>
#include <stdio.h>

static int reached, done;

static int dive(int depth) {
    reached = depth;
    if (depth == 0)
        return 0;
    return dive(depth - 1) + 1;
}

static void *works(void *argument) {
    *(int *)argument = dive(30000);
    done = 1; // records: T0.1 write, depth 1
    return 0;
}

int main(void) {
    pthread_t thread;
    int depth;
    pthread_create(&thread, 0, works, &depth);
    pthread_join(thread, 0);
    printf("%d %d %d\n", depth, reached, done);
    return 0;
}

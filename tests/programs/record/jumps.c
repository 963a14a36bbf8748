// longjmp out of functions and out of signal handlers: the calls in the trace stay right.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static jmp_buf back;
static sigjmp_buf from_handler;
static int depth_reached, faults;
static volatile int values[256];

static __attribute__((noinline)) void dive(int depth) {
    depth_reached += depth; // records: T0.1 write
    if (depth == 0)
        longjmp(back, 1);
    dive(depth - 1);
    depth_reached -= 1;
}

static void handle(int signal) {
    faults++;
    siglongjmp(from_handler, signal);
}

static void *works(void *argument) {
    for (int i = 0; i < 100; i++)
        if (setjmp(back) == 0)
            dive(20);
    for (int i = 0; i < 10; i++)
        if (sigsetjmp(from_handler, 1) == 0)
            *(volatile int *)8 = i;
    for (int i = 0; i < 256; i++)
        values[i] = i; // records: T0.1 write, depth 1
    return argument;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGSEGV, &action, 0);
    pthread_t thread;
    pthread_create(&thread, 0, works, 0);
    pthread_join(thread, 0);
    printf("%d %d %d\n", depth_reached, faults, values[255]);
    return 0;
}

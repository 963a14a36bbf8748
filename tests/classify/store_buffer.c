// Each thread writes one variable and reads the other: with store buffers both can read 0.
//
// outputs sc: 0,1 1,0 1,1
// outputs tso: 0,0 0,1 1,0 1,1
// outputs weak: 0,0 0,1 1,0 1,1
#include <pthread.h>
#include <stdio.h>

static volatile int x, y;
static int seen_y, seen_x;

static void *one(void *unused) {
    x = 1;
    seen_y = y;
    return unused;
}

static void *other(void *unused) {
    y = 1;
    seen_x = x;
    return unused;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, 0, one, 0);
    pthread_create(&second, 0, other, 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
    printf("%d,%d\n", seen_y, seen_x);
    return 0;
}

// Two writes of one thread that nothing orders for a reader. After the program of Figure 40 of the
// dissertation (Kasikci 2015): what is printed depends on the schedule, and on the memory model.
//
// outputs sc: 0,0 0,2 1,2
// outputs tso: 0,0 0,2 1,2
// outputs weak: 0,0 0,2 1,0 1,2
#include <pthread.h>
#include <stdio.h>

static volatile int data, flag;

static void *publish(void *unused) {
    data = 2;
    flag = 1;
    return unused;
}

static void *repeat(void *unused) {
    data = 2;
    return unused;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, 0, publish, 0);
    pthread_create(&second, 0, repeat, 0);
    int seen_flag = flag; // Before the data: sequential consistency then excludes 1,0.
    int seen_data = data;
    pthread_join(first, 0);
    pthread_join(second, 0);
    printf("%d,%d\n", seen_flag, seen_data);
    return 0;
}

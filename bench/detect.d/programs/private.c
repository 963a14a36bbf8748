// One loop over sixteen ints that one thread alone touches: the hook and nothing else.
#include <pthread.h>

enum { ROUNDS = 64000000 };
int table[16], sums[16];

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++)
        sums[i & 15] += table[i * 7 & 15];
    return unused;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < 16; i++)
        table[i] = i;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return sums[1] == 0;
}

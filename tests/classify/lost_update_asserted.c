// options: --values --seed 1
// The lost update again, in a program that checks its own total.
#include <assert.h>
#include <pthread.h>

static int balance;

static void *deposit(void *unused) {
    balance++; // class: spec-violated
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, deposit, NULL);
    pthread_create(&two, NULL, deposit, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    assert(balance == 2);
    return 0;
}

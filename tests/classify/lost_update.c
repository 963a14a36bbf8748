// Two deposits without a lock: one of them can be lost, and the total shows it.
#include <pthread.h>
#include <stdio.h>

static int balance;

static void *deposit(void *unused) {
    int old = balance;  // class: output-differs
    balance = old + 10; // class: output-differs
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, deposit, NULL);
    pthread_create(&two, NULL, deposit, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    printf("balance %d\n", balance);
    return 0;
}

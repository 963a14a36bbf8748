// found: withdraw
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static void *withdraw(void *arg) {
    pthread_mutex_lock(&lock);
    int old = balance;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    balance = old - 10;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, withdraw, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    printf("balance %d\n", balance);
    return 0;
}

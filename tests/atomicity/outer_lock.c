// nothing
// The inner lock is released in between, the outer one is not.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static int balance = 100;

static int read_balance(void) {
    pthread_mutex_lock(&inner);
    int now = balance;
    pthread_mutex_unlock(&inner);
    return now;
}

static void write_balance(int now) {
    pthread_mutex_lock(&inner);
    balance = now;
    pthread_mutex_unlock(&inner);
}

static void *withdraw(void *arg) {
    pthread_mutex_lock(&outer);
    int old = read_balance();
    write_balance(old - 10);
    pthread_mutex_unlock(&outer);
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

// Moves money between two accounts, from two threads. Both take the locks in the same order;
// build with -DINVERTED to see the deadlock that Norns confirms when one does not.
#include <pthread.h>
#include <stdio.h>

struct account {
    pthread_mutex_t lock;
    int money;
};

static struct account a = {PTHREAD_MUTEX_INITIALIZER, 100};
static struct account b = {PTHREAD_MUTEX_INITIALIZER, 100};

static void *a_to_b(void *unused) {
    (void)unused;
    pthread_mutex_lock(&a.lock);
    pthread_mutex_lock(&b.lock);
    a.money -= 10;
    b.money += 10;
    pthread_mutex_unlock(&b.lock);
    pthread_mutex_unlock(&a.lock);
    return 0;
}

static void *b_to_a(void *unused) {
    (void)unused;
#ifdef INVERTED
    pthread_mutex_lock(&b.lock);
    pthread_mutex_lock(&a.lock);
#else
    pthread_mutex_lock(&a.lock);
    pthread_mutex_lock(&b.lock);
#endif
    b.money -= 20;
    a.money += 20;
    pthread_mutex_unlock(&a.lock);
    pthread_mutex_unlock(&b.lock);
    return 0;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, 0, a_to_b, 0);
    pthread_create(&second, 0, b_to_a, 0);
    pthread_join(first, 0);
    pthread_join(second, 0);
    printf("%d %d\n", a.money, b.money);
    return a.money + b.money != 200;
}

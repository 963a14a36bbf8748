// Two transfers between the same accounts in both directions.
#include <pthread.h>

struct account {
    pthread_mutex_t lock;
    int balance;
};
static struct account savings = {PTHREAD_MUTEX_INITIALIZER, 100};
static struct account checking = {PTHREAD_MUTEX_INITIALIZER, 100};

static void transfer(struct account *from, struct account *to, int amount) {
    pthread_mutex_lock(&from->lock);
    pthread_mutex_lock(&to->lock); // finds: deadlock
    from->balance -= amount;
    to->balance += amount;
    pthread_mutex_unlock(&to->lock);
    pthread_mutex_unlock(&from->lock);
}

static void *worker(void *unused) {
    transfer(&savings, &checking, 10);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    transfer(&checking, &savings, 20);
    pthread_join(thread, 0);
    return 0;
}

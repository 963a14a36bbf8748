// Waits that can go wrong, in a run in which none of them does.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int items, stop;
static int taken;

static void take_once(void) {
    pthread_mutex_lock(&lock);
    items = 0;
    if (!items)
        pthread_cond_wait(&changed, &lock); // finds: wait-once
    items--;
    pthread_mutex_unlock(&lock);
}

// In a loop, but in one that takes before it tests again.
static void take_many(int count) {
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&lock);
        items = 0;
        if (!items)
            pthread_cond_wait(&changed, &lock); // finds: wait-once
        items--;
        taken++;
        pthread_mutex_unlock(&lock);
    }
}

static void wait_without_lock(void) {
    while (!items)
        pthread_cond_wait(&changed, &lock); // finds: test-unlocked
}

static void lock_after_test(void) {
    while (!items) {
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&changed, &lock); // finds: test-unlocked
        pthread_mutex_unlock(&lock);
    }
}

static void *producer(void *arg) {
    while (!stop) {
        pthread_mutex_lock(&lock);
        items++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, producer, 0);
    take_once();
    take_many(2);
    while (!items)
        sched_yield();
    wait_without_lock();
    lock_after_test();
    stop = 1;
    pthread_join(thread, 0);
    return 0;
}

// confirmed: sum
// A transfer between the two reads makes money.
#include <assert.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int savings = 100, checking = 100;

static void *transfer(void *arg) {
    pthread_mutex_lock(&lock);
    savings -= 10;
    checking += 10;
    pthread_mutex_unlock(&lock);
    return arg;
}

static void *sum(void *arg) {
    pthread_mutex_lock(&lock);
    int all = savings;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    all += checking;
    pthread_mutex_unlock(&lock);
    assert(all == 200);
    return arg;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, transfer, 0);
    pthread_create(&threads[1], 0, sum, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}

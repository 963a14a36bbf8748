// The waiter waits for both of two signallers.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int done, one, two, sum;

static void *signaller(void *argument) {
    *(int *)argument = 1;
    pthread_mutex_lock(&m);
    done++;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, signaller, &one);
    pthread_create(&b, 0, signaller, &two);
    pthread_mutex_lock(&m);
    while (done < 2)
        pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    sum = one + two;
    pthread_join(a, 0);
    pthread_join(b, 0);
    return sum - 2;
}

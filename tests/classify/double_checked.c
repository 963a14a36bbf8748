// Double-checked locking: the first test has no lock. Under sequential consistency it does no harm.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ready, answer;

static void *user(void *unused) {
    if (!ready) { // class: harmless
        pthread_mutex_lock(&lock);
        if (!ready) {
            answer = 42;
            ready = 1;
        }
        pthread_mutex_unlock(&lock);
    }
    printf("answer %d\n", answer);
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, user, NULL);
    pthread_create(&two, NULL, user, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}

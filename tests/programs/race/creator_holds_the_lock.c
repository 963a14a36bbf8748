// The try of the new thread usually comes before the lock of its creator, or after the unlock.
#include <pthread.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int value;

static void *attempt(void *arg) {
    if (pthread_mutex_trylock(&m) == 0) {
        value++;
        pthread_mutex_unlock(&m);
    } else {
        value--; // finds: data-race, with line 21
    }
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, attempt, 0);
    pthread_mutex_lock(&m);
    value = 3; // finds: data-race write, with line 12
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

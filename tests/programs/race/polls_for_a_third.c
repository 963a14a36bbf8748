// The order of two critical sections hides the race on `balance`. Before it a thread polls a plain variable
// that a third thread sets, of which no schedule for the race needs anything.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static volatile int ready; // the race on it is in every recording
static int balance;

static void *early(void *arg) {
    balance = 1; // finds: data-race write, with line 23
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    return arg;
}

static void *late(void *arg) {
    while (!ready) // finds: data-race read, with line 30
        usleep(1000);
    usleep(20000);
    pthread_mutex_lock(&m);
    pthread_mutex_unlock(&m);
    balance = 2; // finds: data-race write, with line 11
    return arg;
}

static void *third(void *arg) {
    pthread_mutex_lock(&other);
    pthread_mutex_unlock(&other);
    ready = 1; // finds: data-race write, with line 18
    return arg;
}

int main(void) {
    pthread_t threads[3];
    pthread_create(&threads[0], 0, early, 0);
    pthread_create(&threads[1], 0, third, 0);
    pthread_create(&threads[2], 0, late, 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}

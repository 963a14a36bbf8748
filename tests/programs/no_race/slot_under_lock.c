// A buffer changes hands through a state that is only touched under a lock: whoever finds its state may use
// the buffer without one. // all refuted
#include <pthread.h>
#include <unistd.h>

enum { EMPTY, FULL };

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int state, buffer, sum;

static void await(int wanted) {
    for (int seen = !wanted; seen != wanted;) {
        pthread_mutex_lock(&m);
        seen = state;
        pthread_mutex_unlock(&m);
        if (seen != wanted)
            usleep(100);
    }
}

static void set(int next) {
    pthread_mutex_lock(&m);
    state = next;
    pthread_mutex_unlock(&m);
}

static void *consumer(void *unused) {
    for (int i = 0; i < 3; i++) {
        await(FULL);
        sum += buffer;
        set(EMPTY);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, consumer, 0);
    for (int i = 0; i < 3; i++) {
        await(EMPTY);
        buffer = i;
        set(FULL);
    }
    pthread_join(thread, 0);
    return sum != 3;
}

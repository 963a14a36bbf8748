// options: --values --seed 2
// A thread that comes late overwrites the order to stop, and the loop never sees it again.
#include <pthread.h>

static volatile int stop;

static void *reset(void *unused) {
    stop = 0; // class: spec-violated
    return unused;
}

static void *finish(void *unused) {
    stop = 1;
    return unused;
}

static void *spin(void *unused) {
    while (!stop)
        ;
    return unused;
}

int main(void) {
    pthread_t one, two, three;
    pthread_create(&one, NULL, reset, NULL);
    pthread_create(&two, NULL, finish, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    pthread_create(&three, NULL, spin, NULL);
    pthread_join(three, NULL);
    return 0;
}

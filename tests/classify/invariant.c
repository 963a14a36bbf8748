// options: --values --seed 1 --invariant end:total==2
// Nothing fails and nothing is printed; that the total must be 2 is only known to whoever asks.
#include <pthread.h>

static int total;

static void *add(void *unused) {
    total = total + 1; // class: spec-violated
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, add, NULL);
    int before = total; // class: spec-violated
    total = before + 1;
    pthread_join(thread, NULL);
    return 0;
}

// options: --memory tso --values --seed 1
// Each thread announces itself and looks for the other one. In every interleaving one of them sees the other; with
// store buffers both can miss it, and both enter.
#include <pthread.h>
#include <stdio.h>

static volatile int here[2];
static int entered[2];

static void *first(void *unused) {
    here[0] = 1; // class: output-differs
    entered[0] = !here[1];
    return unused;
}

static void *second(void *unused) {
    here[1] = 1;
    entered[1] = !here[0];
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, first, NULL);
    pthread_create(&two, NULL, second, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    puts(entered[0] && entered[1] ? "both entered" : "at most one entered");
    return 0;
}

// Nothing is printed, but the exit status says who was first.
#include <pthread.h>

static int winner;

static void *worker(void *unused) {
    winner = 1; // class: output-differs
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    winner = 2;
    pthread_join(thread, NULL);
    return winner == 1 ? 0 : 3;
}

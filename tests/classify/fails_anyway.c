// options: --values --seed 1
// The program aborts at its end whatever the race does: that says nothing about the race.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int visits;

static void *visit(void *unused) {
    visits = 1; // class: harmless
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, visit, NULL);
    visits = 2; // class: harmless
    pthread_join(thread, NULL);
    puts("cannot go on");
    abort();
}

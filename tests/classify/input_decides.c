// options: --values --seed 1 --symbolic env:WANTED:6
// What the race does depends on a number that comes from outside: the recorded run, without it, shows nothing.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int limit = 4;

static void *shrink(void *unused) {
    limit = 2; // class: spec-violated
    return unused;
}

int main(void) {
    const char *text = getenv("WANTED");
    int wanted = text ? atoi(text) : 1;
    pthread_t thread;
    pthread_create(&thread, NULL, shrink, NULL);
    int most = limit; // class: spec-violated
    pthread_join(thread, NULL);
    if (wanted > 1000 && wanted % 7 == 3 && most == 4)
        abort();
    puts("done");
    return 0;
}

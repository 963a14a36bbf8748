// options: --values --seed 1 --symbolic env:COUNT:3
// Whatever number comes from outside, the race does nothing to what is printed.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int seen;

static void *look(void *unused) {
    seen = 1; // class: harmless
    return unused;
}

int main(void) {
    const char *text = getenv("COUNT");
    int count = text ? atoi(text) : 2;
    pthread_t thread;
    pthread_create(&thread, NULL, look, NULL);
    if (count > 5)
        count = count % 3;
    int early = seen; // class: harmless
    pthread_join(thread, NULL);
    printf("%d\n", count + (early & 0));
    return 0;
}

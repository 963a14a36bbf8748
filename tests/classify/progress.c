// A progress bar reads the count without a lock and prints nothing of it but dots that do not depend on it.
#include <pthread.h>
#include <stdio.h>

static int count;

static void *work(void *unused) {
    for (int i = 0; i < 4; i++)
        count = i; // class: harmless
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    int seen = count;
    puts(seen < 100 ? "working" : "done");
    pthread_join(thread, NULL);
    return 0;
}

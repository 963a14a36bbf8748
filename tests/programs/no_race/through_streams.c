// Lines that pass through streams of the C library, over a pipe.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static FILE *from, *to;
static int value, last;

static void *print(void *arg) {
    value = 42;
    fprintf(to, "ready\n");
    fflush(to);
    last = 43;
    fclose(to);
    return arg;
}

int main(void) {
    pthread_t thread;
    char line[16];
    int ends[2];
    if (pipe(ends)) return 1;
    from = fdopen(ends[0], "r");
    to = fdopen(ends[1], "w");
    pthread_create(&thread, 0, print, 0);
    if (!fgets(line, sizeof line, from)) return 1;
    int got = value;
    while (fgetc(from) != EOF) {
    }
    got += last;
    pthread_join(thread, 0);
    return got != 85;
}

// Nothing is printed, but a file gets another text.
#include <pthread.h>
#include <stdio.h>

static int mode;

static void *set(void *unused) {
    mode = 1; // class: output-differs
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, set, NULL);
    const char *word = mode ? "fast" : "safe";
    pthread_join(thread, NULL);
    FILE *file = fopen("mode.txt", "w");
    fprintf(file, "%s\n", word);
    fclose(file);
    return 0;
}

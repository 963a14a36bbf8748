// options: --values --seed 1 --symbolic stdin:4
// Only with the word `all` is printed what the race leaves behind.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int last;

static void *one(void *unused) {
    last = 1; // class: output-differs
    return unused;
}

static void *two(void *unused) {
    last = 2; // class: output-differs
    return unused;
}

int main(void) {
    char word[8] = "none";
    if (fgets(word, 4, stdin) == NULL)
        strcpy(word, "few");
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, two, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    if (strcmp(word, "all") == 0)
        printf("last was %d\n", last);
    else
        puts("done");
    return 0;
}

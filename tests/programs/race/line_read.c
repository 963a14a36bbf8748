// Two threads read lines of one stream into the same block. The stream has its own lock, the block
// has none.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *stream;
static char *line;
static size_t room;
static char word[8];

static void *read_line(void *arg) {
    if (getline(&line, &room, stream) < 0) // finds: data-race write, with itself
        return arg;
    return 0;
}

static void *read_word(void *arg) {
    if (sscanf("12 abc", "%*d %7s", word) != 1) // finds: data-race write, with line 32
        return arg;
    return 0;
}

int main(void) {
    pthread_t threads[3];
    stream = tmpfile();
    fputs("one\ntwo\n", stream);
    rewind(stream);
    pthread_create(&threads[0], 0, read_line, 0);
    pthread_create(&threads[1], 0, read_line, 0);
    pthread_create(&threads[2], 0, read_word, 0);
    char first = word[3] + word[5]; // finds: data-race read, with line 19
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    free(line);
    return first & 0;
}

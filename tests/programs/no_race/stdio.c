// Streams used by two threads at once, each with buffers of its own; a text that changes is printed
// under the lock of the stream.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static FILE *stream;
static char title[16] = "draft";

static void *work(void *arg) {
    char buffer[32], *rest;
    time_t now = 86400;
    struct tm calendar;
    snprintf(buffer, sizeof buffer, "%s %ld", (char *)arg, (long)now);
    fprintf(stream, "%s\n", buffer);
    char *word = strtok_r(buffer, " ", &rest);
    fputs(word ? word : "", stream);
    if (!gmtime_r(&now, &calendar) || getenv("NO_SUCH_VARIABLE"))
        return arg;
    flockfile(stream);
    title[0] ^= 32;
    fputs(title, stream);
    funlockfile(stream);
    long numbers[3] = {3, 1, 2};
    sscanf("7 8", "%ld %ld", &numbers[0], &numbers[1]);
    return numbers[0] + numbers[2] == 9 ? 0 : arg;
}

int main(void) {
    pthread_t first, second;
    stream = tmpfile();
    pthread_create(&first, 0, work, "one");
    pthread_create(&second, 0, work, "two");
    pthread_join(first, 0);
    pthread_join(second, 0);
    puts(title);
    fclose(stream);
    return 0;
}

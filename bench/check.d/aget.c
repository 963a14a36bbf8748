// A download accelerator in small, after aget: threads fetch the parts of a file, count what has
// arrived under a lock, and a progress display reads the count without it.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, BUFFER = 16384 };

struct part {
    pthread_t thread;
    long from, to, at;
    int status;
};

static int source, target;
static long total, written;
static struct part parts[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long sum(const char *bytes, long count) {
    unsigned long result = 0;
    for (long i = 0; i < count; i++)
        result = result * 31 + (unsigned char)bytes[i];
    return result;
}

static void *fetch(void *argument) {
    struct part *part = argument;
    char *buffer = malloc(BUFFER);
    unsigned long check = 0;
    for (part->at = part->from; part->at < part->to;) {
        long want = part->to - part->at < BUFFER ? part->to - part->at : BUFFER;
        long got = pread(source, buffer, want, part->at);
        if (got <= 0)
            break;
        check += sum(buffer, got);
        pwrite(target, buffer, got, part->at);
        part->at += got;
        pthread_mutex_lock(&lock);
        written += got;
        pthread_mutex_unlock(&lock);
    }
    free(buffer);
    part->status = check != 0;
    return 0;
}

static void *display(void *unused) {
    long shown = -1;
    for (int i = 0; i < 40; i++) {
        long now = written;
        if (now != shown)
            fprintf(stderr, "\r%ld of %ld", now, total);
        shown = now;
        usleep(200);
    }
    return unused;
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    source = open(words[1], O_RDONLY);
    target = open(words[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    total = lseek(source, 0, SEEK_END);
    pthread_t progress;
    pthread_create(&progress, 0, display, 0);
    for (int i = 0; i < THREADS; i++) {
        parts[i].from = total / THREADS * i;
        parts[i].to = i == THREADS - 1 ? total : total / THREADS * (i + 1);
        pthread_create(&parts[i].thread, 0, fetch, &parts[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(parts[i].thread, 0);
    pthread_join(progress, 0);
    return written == total ? 0 : 1;
}

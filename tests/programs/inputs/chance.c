// Asks for the time and for random bytes, in several ways and threads, and appends what it got to the file
// that is given. Whether a timed wait with an absolute time ended too early is told, too.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int count;

static void *ask(void *arg) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned char bytes[8];
    getrandom(bytes, sizeof bytes, 0);
    char *text = arg;
    int length = sprintf(text, "%ld.%09ld ", (long)now.tv_sec, now.tv_nsec);
    for (int i = 0; i < 8; i++) {
        length += sprintf(text + length, "%02x", bytes[i]);
    }
    count++; // the race
    return 0;
}

int main(int number, char **words) {
    char texts[3][128];
    struct timeval day;
    gettimeofday(&day, 0);
    unsigned seed = 0;
    int device = open("/dev/urandom", O_RDONLY);
    if (number < 2 || read(device, &seed, sizeof seed) != sizeof seed) {
        return 2;
    }
    sprintf(texts[2], "%ld %ld.%06ld %u", (long)time(0), (long)day.tv_sec, (long)day.tv_usec, seed);

    // A quarter of a second by the clock of the day.
    struct timespec start, end, until = {day.tv_sec, day.tv_usec * 1000 + 250000000};
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&never, &lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&lock);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long waited = (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000;

    pthread_t one, other;
    pthread_create(&one, 0, ask, texts[0]);
    pthread_create(&other, 0, ask, texts[1]);
    pthread_join(one, 0);
    pthread_join(other, 0);
    FILE *file = fopen(words[1], "a");
    fprintf(file, "%s | %s | %s | %s\n", texts[0], texts[1], texts[2], waited >= 200 ? "waited" : "too early");
    fclose(file);
    return 0;
}

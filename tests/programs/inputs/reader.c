// Reads numbers from standard input; two threads add them up, one of them without the lock when the
// number is 7. Prints how standard input looks: whether it is a regular file, and where it begins.
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int numbers[100], count, sum;

static void *add(void *arg) {
    for (int i = (int)(long)arg; i < count; i += 2) {
        if (numbers[i] == 7) {
            sum += 7; // the race
            continue;
        }
        pthread_mutex_lock(&lock);
        sum += numbers[i]; // the race
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(void) {
    struct stat status;
    fstat(0, &status);
    printf("%s at %ld\n", S_ISREG(status.st_mode) ? "regular" : "other", (long)lseek(0, 0, SEEK_CUR));
    while (count < 100 && scanf("%d", &numbers[count]) == 1) {
        count++;
    }
    pthread_t one, other;
    pthread_create(&one, 0, add, (void *)0);
    pthread_create(&other, 0, add, (void *)1);
    pthread_join(one, 0);
    pthread_join(other, 0);
    printf("%d numbers, sum %d\n", count, sum);
    return 0;
}

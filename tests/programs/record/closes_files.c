// A program that closes every descriptor, ours too, and opens its own: they must not be mixed up.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int values[1 << 18];

static void *works(void *argument) {
    for (int i = 0; i < 1 << 18; i++)
        values[i] += i; // records: T0.1 write, T0.2 write
    return argument;
}

int main(void) {
    char name[] = "/tmp/norns-test-XXXXXX";
    int own = mkstemp(name);
    unlink(name);
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        pthread_create(&thread, 0, works, 0);
        pthread_join(thread, 0);
        for (int i = 3; i < 2000; i++)
            if (i != own)
                close(i);
        for (int i = 3; i < 2000; i++)
            if (i != own && dup2(own, i) < 0)
                break;
    }
    printf("%d %d\n", values[100], (int)lseek(own, 0, SEEK_END));
    return 0;
}

// options: --values --seed 1
// What the race decides about goes through a socket and is seen nowhere else.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int version = 1;

static void *upgrade(void *unused) {
    version = 2; // class: output-differs
    return unused;
}

int main(void) {
    int ends[2];
    char text[32] = "", answer[32];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pthread_t thread;
    pthread_create(&thread, NULL, upgrade, NULL);
    snprintf(text, sizeof text, "version %d\n", version); // class: output-differs
    send(ends[0], text, strlen(text), 0);
    (void)!read(ends[1], answer, sizeof answer);
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}

// Bytes in both directions of a pair of sockets, one end used through a duplicate.
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2], question, answer;

static void *reply(void *arg) {
    int mine = dup(ends[1]);
    char byte;
    if (recv(mine, &byte, 1, 0) != 1) return arg;
    answer = question + 1;
    if (send(mine, &byte, 1, 0) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte = 'x';
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    pthread_create(&thread, 0, reply, 0);
    question = 41;
    if (send(ends[0], &byte, 1, 0) != 1 || recv(ends[0], &byte, 1, 0) != 1) return 1;
    int got = answer;
    pthread_join(thread, 0);
    return got != 42;
}

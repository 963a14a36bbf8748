// A message on one connection says nothing of what came before a message on another.
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static int one[2], other[2], value;

static void *give(void *arg) {
    char byte = 'x';
    value = 42; // finds: data-race write, with line 28
    if (send(one[1], &byte, 1, 0) != 1) return arg;
    return 0;
}

static void *give_elsewhere(void *arg) {
    char byte = 'x';
    if (send(other[1], &byte, 1, 0) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t threads[2];
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, one) || socketpair(AF_UNIX, SOCK_STREAM, 0, other)) return 1;
    pthread_create(&threads[0], 0, give, 0);
    pthread_create(&threads[1], 0, give_elsewhere, 0);
    if (recv(other[0], &byte, 1, 0) != 1) return 1;
    value++; // finds: data-race write, with line 10
    if (recv(one[0], &byte, 1, 0) != 1) return 1;
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return value > 43;
}

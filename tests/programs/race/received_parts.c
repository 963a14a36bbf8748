// A message arrives in parts of an array that another thread reads. Only what arrived was written.
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static char message[16];
static int ends[2];

static void *receive(void *arg) {
    struct iovec parts[2] = {{message, 2}, {message + 4, 8}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    if (recvmsg(ends[1], &header, 0) != 4) // finds: data-race write, with line 22
        return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    pthread_create(&thread, 0, receive, 0);
    if (send(ends[0], "four", 4, 0) != 4) return 1;
    int sum = message[5]; // finds: data-race read, with line 12
    sum += message[3];    // between the parts
    sum += message[6];    // behind what arrived
    pthread_join(thread, 0);
    return sum & 0;
}

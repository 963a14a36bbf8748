// A pipe is passed through a socket; what comes through it orders the threads as ever.
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2], ends[2], value;
static char room[CMSG_SPACE(sizeof(int))], received[CMSG_SPACE(sizeof(int))];

static void *receive(void *arg) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = received, .msg_controllen = sizeof received};
    if (recvmsg(pair[1], &message, 0) != 1) return arg;
    int file;
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    if (read(file, &byte, 1) == 1) value++;
    return arg;
}

int main(void) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(ends)) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, receive, 0);
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &ends[0], sizeof(int));
    if (sendmsg(pair[0], &message, 0) != 1) return 1;
    value = 1;
    if (write(ends[1], "x", 1) != 1) return 1;
    pthread_join(thread, 0);
    return value != 2;
}

// Calls on descriptors return what they would without us: results, errors, bytes, flags, children.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void show(const char *what, long result) {
    printf("%s %ld %d\n", what, result, result < 0 ? errno : 0);
    errno = 0;
}

static void interrupt(int number) { (void)number; }

static void *poke(void *thread) {
    for (int i = 0; i < 3; i++) {
        usleep(30000);
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    }
    return 0;
}

static void *write_late(void *file) {
    usleep(150000);
    return write(*(int *)file, "late", 4) == 4 ? 0 : file;
}

static void pipes(void) {
    int ends[2];
    char bytes[100000] = {0};
    show("pipe", pipe2(ends, O_NONBLOCK));
    show("empty", read(ends[0], bytes, 1));
    show("full", write(ends[1], bytes, sizeof bytes));
    show("fuller", write(ends[1], bytes, 1));
    show("part", read(ends[0], bytes, 70000));
    int waiting;
    show("ioctl", ioctl(ends[0], FIONREAD, &waiting));
    show("waiting", waiting > 60000 ? 1 : waiting);
    char *volatile nowhere = (char *)8;
    show("bad address", write(ends[1], nowhere, 1));
    show("bad descriptor", read(777, bytes, 1));
    show("nothing", write(ends[1], bytes, 0));
    close(ends[1]);
    while (read(ends[0], bytes, sizeof bytes) > 0) {
    }
    show("end", read(ends[0], bytes, 1));
    show("flags", fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    show("close", close(ends[0]));
    show("closed", close(ends[0]));
}

static void broken_pipe(void) {
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    show("pipe", pipe(ends));
    close(ends[0]);
    show("broken", write(ends[1], "x", 1));
    close(ends[1]);
}

static void interrupted(int flags) {
    int ends[2];
    char bytes[8];
    pthread_t self = pthread_self(), threads[2];
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = flags};
    sigaction(SIGUSR1, &action, 0);
    show("pipe", pipe(ends));
    pthread_create(&threads[0], 0, poke, &self);
    pthread_create(&threads[1], 0, write_late, &ends[1]);
    long got = read(ends[0], bytes, sizeof bytes);
    show("interrupted", got);
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    while (got < 0 && poll(&polled, 1, -1) < 0) {
    }
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    close(ends[0]);
    close(ends[1]);
}

static void sockets(void) {
    int ends[2];
    char bytes[16] = "";
    show("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    struct iovec out[2] = {{"abc", 3}, {"defg", 4}}, in[2] = {{bytes, 2}, {bytes + 2, 9}};
    struct msghdr message = {.msg_iov = out, .msg_iovlen = 2};
    show("sendmsg", sendmsg(ends[0], &message, 0));
    show("peek", recv(ends[1], bytes, 4, MSG_PEEK));
    show("readv", readv(ends[1], in, 2));
    puts(bytes);
    show("empty", recv(ends[1], bytes, 4, MSG_DONTWAIT));
    show("shutdown", shutdown(ends[0], SHUT_WR));
    show("end", recv(ends[1], bytes, 4, 0));
    int copy = dup(ends[1]);
    show("dup2", dup2(copy, ends[1]) == ends[1]);
    show("dup3", dup3(copy, copy, 0));
    show("back", write(ends[1], "hello", 5));
    show("other way", read(ends[0], bytes, sizeof bytes));
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(1)};
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int file = socket(AF_INET, SOCK_STREAM, 0);
    show("refused", connect(file, (struct sockaddr *)&name, sizeof name));
    show("not connected", send(file, "x", 1, MSG_NOSIGNAL));
    show("no listener", accept(file, 0, 0));
    close(file);
    close(copy);
}

static void counters(void) {
    uint64_t value = 3;
    int file = eventfd(2, EFD_NONBLOCK);
    show("add", write(file, &value, sizeof value));
    show("short", write(file, &value, 4));
    show("take", read(file, &value, sizeof value));
    printf("%d\n", (int)value);
    show("empty", read(file, &value, sizeof value));
    int loop = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 99}, found;
    show("add", epoll_ctl(loop, EPOLL_CTL_ADD, file, &event));
    show("again", epoll_ctl(loop, EPOLL_CTL_ADD, file, &event));
    show("remove", epoll_ctl(loop, EPOLL_CTL_DEL, file, 0));
    show("add", epoll_ctl(loop, EPOLL_CTL_ADD, file, &event));
    show("time-out", epoll_wait(loop, &found, 1, 1));
    eventfd_write(file, 1);
    show("ready", epoll_wait(loop, &found, 1, -1));
    printf("%d\n", (int)found.data.u64);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(file, &set);
    struct timeval none = {0, 0};
    show("select", select(file + 1, &set, 0, 0, &none));
    close(loop);
    close(file);
}

static void children(void) {
    int ends[2];
    char bytes[16] = "", *arguments[] = {"echo", "spawned", 0};
    pid_t child;
    show("pipe", pipe(ends));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    show("spawn", posix_spawn(&child, "/bin/echo", &actions, 0, arguments, environ));
    waitpid(child, 0, 0);
    show("child", read(ends[0], bytes, sizeof bytes));
    child = vfork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        closefrom(3);
        execl("/bin/echo", "echo", "vforked", (char *)0);
        _exit(1);
    }
    waitpid(child, 0, 0);
    show("child", read(ends[0], bytes, sizeof bytes));
    close(ends[1]);
    show("end", read(ends[0], bytes, sizeof bytes));
    show("close_range", close_range(ends[0], ends[0], 0));
    show("closed", close(ends[0]));
}

static void *all(void *arg) {
    pipes();
    broken_pipe();
    interrupted(0);
    interrupted(SA_RESTART);
    sockets();
    counters();
    children();
    return arg;
}

int main(void) {
    pthread_t thread;
    setvbuf(stdout, 0, _IONBF, 0);
    pthread_create(&thread, 0, all, 0);
    pthread_join(thread, 0);
    return 7;
}

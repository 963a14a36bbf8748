// Messages of a System V queue and of a POSIX queue carry what was done before they were sent.
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <unistd.h>

struct message {
    long type;
    char text[8];
};

static int queue, first, second;
static mqd_t other_queue;

static void *answer(void *arg) {
    struct message message;
    if (msgrcv(queue, &message, sizeof message.text, 2, 0) < 0) return arg;
    second = first + 1;
    if (mq_send(other_queue, "done", 4, 3)) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char name[64], text[16];
    snprintf(name, sizeof name, "/norns-queue-%d", getpid());
    struct mq_attr sizes = {.mq_maxmsg = 4, .mq_msgsize = sizeof text};
    queue = msgget(IPC_PRIVATE, 0600);
    other_queue = mq_open(name, O_CREAT | O_RDWR, 0600, &sizes);
    mq_unlink(name);
    pthread_create(&thread, 0, answer, 0);
    first = 41;
    struct message message = {2, "go"};
    if (msgsnd(queue, &message, sizeof message.text, 0)) return 1;
    if (mq_receive(other_queue, text, sizeof text, 0) != 4) return 1;
    int got = second;
    pthread_join(thread, 0);
    msgctl(queue, IPC_RMID, 0);
    return got != 42;
}

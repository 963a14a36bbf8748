// A poll that timed out and a read that found nothing order nothing.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static int ends[2], value;
static sem_t polled_once;

static void *give(void *arg) {
    sem_wait(&polled_once);
    value = 42; // finds: data-race write, with line 28
    if (write(ends[1], "x", 1) != 1) return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    sem_init(&polled_once, 0, 0);
    if (pipe(ends) || fcntl(ends[0], F_SETFL, O_NONBLOCK)) return 1;
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    pthread_create(&thread, 0, give, 0);
    int found = poll(&polled, 1, 1);
    long got = read(ends[0], &byte, 1);
    sem_post(&polled_once);
    value++; // finds: data-race write, with line 13
    pthread_join(thread, 0);
    return found != 0 || got >= 0;
}

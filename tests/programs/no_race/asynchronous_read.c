// Whoever finds an asynchronous read done comes after whoever asked for it, and has its bytes.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

static char bytes[16];
static struct aiocb request = {.aio_buf = bytes, .aio_nbytes = 8};
static sem_t asked;
static int value;

static void *await(void *arg) {
    const struct aiocb *list[] = {&request};
    sem_wait(&asked);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, 0);
    if (aio_return(&request) == 8) value += bytes[1] == 'E';
    return arg;
}

int main(void) {
    sem_init(&asked, 0, 0);
    request.aio_fildes = open("/proc/self/exe", O_RDONLY);
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    aio_read(&request);
    sem_post(&asked);
    pthread_join(thread, 0);
    return value != 2;
}

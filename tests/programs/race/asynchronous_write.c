// The bytes of an asynchronous write change while it may still read them.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

static char bytes[16] = "to be written";
static struct aiocb request = {.aio_buf = bytes, .aio_nbytes = 8};

static void *change(void *arg) {
    bytes[1] = 'u'; // finds: data-race write, with line 19
    return arg;
}

int main(void) {
    request.aio_fildes = open("/dev/null", O_WRONLY);
    pthread_t thread;
    pthread_create(&thread, 0, change, 0);
    aio_write(&request); // finds: data-race read, with line 11
    const struct aiocb *list[] = {&request};
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, 0);
    pthread_join(thread, 0);
    return aio_return(&request) != 8;
}

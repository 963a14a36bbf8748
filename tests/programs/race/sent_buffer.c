// A buffer changes while it is being sent: the kernel reads it for its caller.
#include <pthread.h>
#include <unistd.h>

static char message[16] = "hello";
static int ends[2];

static void *send_message(void *arg) {
    if (write(ends[1], message, 5) != 5) // finds: data-race read, with line 18
        return arg;
    return 0;
}

int main(void) {
    pthread_t thread;
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, send_message, 0);
    message[1] = 'u'; // finds: data-race write, with line 9
    message[9] = 'u'; // not sent
    pthread_join(thread, 0);
    return 0;
}

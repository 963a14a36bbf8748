// A server thread waits for a connection until its socket is shut down.
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener, value;

static void *serve(void *arg) {
    if (accept(listener, 0, 0) < 0) value++;
    return arg;
}

int main(void) {
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&any, offsetof(struct sockaddr_un, sun_path))) return 1;
    if (listen(listener, 1)) return 1;
    pthread_t thread;
    pthread_create(&thread, 0, serve, 0);
    value = 1;
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, 0);
    close(listener);
    return value != 2;
}

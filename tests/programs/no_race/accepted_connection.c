// A connection within the program: connecting, a request and its answer order both sides.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in name = {.sin_family = AF_INET};
static int before, request, answer;

static void *call_up(void *arg) {
    char byte = 'x';
    int file = socket(AF_INET, SOCK_STREAM, 0);
    before = 1;
    if (connect(file, (struct sockaddr *)&name, sizeof name)) return arg;
    request = 20;
    if (write(file, &byte, 1) != 1 || read(file, &byte, 1) != 1) return arg;
    if (answer != 21) return arg;
    close(file);
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    socklen_t size = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&name, size) || listen(listener, 5)) return 1;
    if (getsockname(listener, (struct sockaddr *)&name, &size)) return 1;
    pthread_create(&thread, 0, call_up, 0);
    int file = accept(listener, 0, 0);
    int connected = before;
    if (read(file, &byte, 1) != 1) return 1;
    answer = request + connected;
    if (write(file, &byte, 1) != 1) return 1;
    pthread_join(thread, 0);
    return 0;
}

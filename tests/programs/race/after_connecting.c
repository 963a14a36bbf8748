// What a client does after it has connected is not ordered before what the server does. The client closes
// its socket late: if the server got the same number by `accept`, that would come after the close.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in name = {.sin_family = AF_INET};
static int before, after, file;

static void *call_up(void *arg) {
    file = socket(AF_INET, SOCK_STREAM, 0);
    before = 1;
    if (connect(file, (struct sockaddr *)&name, sizeof name)) return arg;
    after = 1; // finds: data-race write, with line 29
    return 0;
}

int main(void) {
    pthread_t thread;
    socklen_t size = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&name, size) || listen(listener, 5)) return 1;
    if (getsockname(listener, (struct sockaddr *)&name, &size)) return 1;
    pthread_create(&thread, 0, call_up, 0);
    close(accept(listener, 0, 0));
    int sum = before + after; // finds: data-race read, with line 16
    pthread_join(thread, 0);
    close(file);
    return sum > 2;
}

// A table with an entry for every descriptor, as servers have it: a number goes to a new connection
// only after the thread that had it before has closed it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRIES = 100 };

static struct sockaddr_in name = {.sin_family = AF_INET};
static int entries[4096];

static void *serve(void *arg) {
    int file = *(int *)arg;
    entries[file] = 1;
    close(file);
    return 0;
}

int main(void) {
    static int first, clients[TRIES + 1];
    pthread_t thread;
    socklen_t size = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&name, size) || listen(listener, TRIES)) return 1;
    if (getsockname(listener, (struct sockaddr *)&name, &size)) return 1;
    for (int i = 0; i <= TRIES; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(clients[i], (struct sockaddr *)&name, sizeof name)) return 1;
    }
    first = accept(listener, 0, 0);
    pthread_create(&thread, 0, serve, &first);
    for (int i = 0; i < TRIES; i++) {
        int file = accept(listener, 0, 0);
        entries[file] = 2;
        if (file == first) break;
        sched_yield();
    }
    pthread_join(thread, 0);
    return 0;
}

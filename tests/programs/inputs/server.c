// A server with one thread for each connection: `add N` adds to a sum, `sum` prints it, `quit` ends the
// server. The sum is guarded; the number of requests is not. On SIGTERM the server ends cleanly, unless
// its first argument says `stubborn` (it ignores SIGTERM) or `plain` (SIGTERM kills it).
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static int requests;

static void *serve(void *arg) {
    int connection = (int)(long)arg;
    char line[64], answer[64];
    ssize_t length;
    while ((length = read(connection, line, sizeof line - 1)) > 0) {
        line[length] = 0;
        requests++; // the race
        if (!strncmp(line, "quit", 4)) {
            exit(0);
        }
        pthread_mutex_lock(&lock);
        if (!strncmp(line, "add ", 4)) {
            sum += atol(line + 4);
        }
        int size = snprintf(answer, sizeof answer, "%ld\n", sum);
        pthread_mutex_unlock(&lock);
        if (write(connection, answer, size) != size) {
            break;
        }
    }
    close(connection);
    return 0;
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    if (!strcmp(way, "stubborn")) {
        signal(SIGTERM, SIG_IGN);
    } else if (strcmp(way, "plain")) {
        signal(SIGTERM, end);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) {
        perror("listen");
        return 1;
    }
    for (;;) {
        int connection = accept(listener, 0, 0);
        pthread_t thread;
        pthread_create(&thread, 0, serve, (void *)(long)connection);
        pthread_detach(thread);
    }
}

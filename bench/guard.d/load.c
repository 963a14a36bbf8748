// Load for memcached: CONNECTIONS threads, each with its connection, that each make REQUESTS requests, a tenth of
// them stores, over 1,000 keys. usage: load PORT CONNECTIONS REQUESTS
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int port, requests;

static void fails(const char *what) {
    perror(what);
    exit(2);
}

static void *client(void *number) {
    int file = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(file, (struct sockaddr *)&address, sizeof address))
        fails("connect");
    unsigned random = (unsigned)(size_t)number + 1;
    char request[256], answer[4096], value[101];
    memset(value, 'v', 100);
    value[100] = 0;
    for (int i = 0; i < requests; i++) {
        random = random * 1664525 + 1013904223;
        unsigned key = random >> 8 & 1023;
        const char *end = "END\r\n";
        int length = sprintf(request, "get key%u\r\n", key);
        if (i % 10 == 0) {
            length = sprintf(request, "set key%u 0 0 100\r\n%s\r\n", key, value);
            end = "STORED\r\n";
        }
        if (write(file, request, length) != length)
            fails("write");
        size_t got = 0, wanted = strlen(end);
        while (got < wanted || memcmp(answer + got - wanted, end, wanted)) {
            ssize_t more = read(file, answer + got, sizeof answer - got);
            if (more <= 0)
                fails("read");
            got += more;
        }
    }
    close(file);
    return 0;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    port = atoi(words[1]);
    requests = atoi(words[3]);
    int connections = atoi(words[2]);
    pthread_t threads[64];
    for (int i = 0; i < connections && i < 64; i++)
        if (pthread_create(&threads[i], 0, client, (void *)(size_t)i))
            fails("pthread_create");
    for (int i = 0; i < connections && i < 64; i++)
        pthread_join(threads[i], 0);
    return 0;
}

// Functions that fill in what their caller passes write there.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>

static struct sockaddr_in name;
static struct utsname system_name;
static char text[64], bytes[16];
static unsigned seed;

static void *fill(void *arg) {
    struct in_addr none = {0};
    struct iovec parts[] = {{bytes, 4}, {bytes + 8, 4}};
    socklen_t size = sizeof name;
    getsockname(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&name, &size); // finds: data-race write, with line 31
    inet_ntop(AF_INET, &none, text, sizeof text); // finds: data-race write, with line 32
    rand_r(&seed);                                // finds: data-race write, with line 33
    uname(&system_name);                          // finds: data-race write, with line 34
    if (preadv2(open("/proc/self/exe", O_RDONLY), parts, 2, 0, 0) < 0) return 0; // finds: data-race write, with line 35
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, fill, 0);
    name.sin_port = 1;              // finds: data-race write, with line 20
    text[0] = 1;                    // finds: data-race write, with line 21
    seed = 1;                       // finds: data-race write, with line 22
    system_name.machine[0] = 'x';   // finds: data-race write, with line 23
    bytes[9] = bytes[5] + 1;        // finds: data-race write, with line 24
    pthread_join(thread, 0);
    return 0;
}

// The kernel tells a thread that another one has written to a file.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

static char path[] = "/tmp/norns-watched-XXXXXX";
static int watches, value;

static void *await(void *arg) {
    char news[512];
    if (read(watches, news, sizeof news) > 0) value++;
    return arg;
}

int main(void) {
    int file = mkstemp(path);
    watches = inotify_init1(0);
    inotify_add_watch(watches, path, IN_MODIFY);
    pthread_t thread;
    pthread_create(&thread, 0, await, 0);
    value = 1;
    if (write(file, "x", 1) != 1) return 1;
    pthread_join(thread, 0);
    unlink(path);
    return value != 2;
}

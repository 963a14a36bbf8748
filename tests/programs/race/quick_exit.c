// As `used_at_exit`, with the handlers of `quick_exit`.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int requests;
static int kept;

static void keep(void) {
    kept = requests; // finds: data-race read, with line 15
}

static void *serve(void *arg) {
    usleep(10000);
    requests = 1; // finds: data-race write, with line 10
    return arg;
}

int main(void) {
    pthread_t thread;
    at_quick_exit(keep);
    pthread_create(&thread, 0, serve, 0);
    quick_exit(0);
}

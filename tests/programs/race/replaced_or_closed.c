// Main puts another file in the place of a descriptor that the worker closes. If the worker comes first,
// the number may be anybody's by then; what follows in that order is not told apart from a new file.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int file;

static void *worker(void *unused) {
    close(file); // may find: closed-in-use destroy, with line 19
    return unused;
}

int main(void) {
    pthread_t thread;
    int other = open("/dev/null", O_RDONLY);
    file = open("/dev/zero", O_RDONLY);
    pthread_create(&thread, 0, worker, 0);
    dup2(other, file); // may find: closed-in-use use, with line 10
    pthread_join(thread, 0);
    close(other);
    return 0;
}

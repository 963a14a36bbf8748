// Threads with the smallest stack that there is open a file.
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

static void *worker(void *unused) {
    int file = open("/dev/null", O_RDONLY);
    if (file >= 0)
        close(file);
    return unused;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t threads[2];
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], &attributes, worker, 0) != 0)
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    pthread_attr_destroy(&attributes);
    return 0;
}

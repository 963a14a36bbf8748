// A writer polls a flag that a worker sets under a lock; its loop takes the same lock for something else,
// so that in most runs the lock orders the flag by chance. What main does after it has joined the writer is
// ordered by the loop.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int done;
static int used, polls;

static void *work(void *unused) {
    used++;
    pthread_mutex_lock(&lock);
    done = 1; // finds: data-race write, with line 20
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *write_out(void *unused) {
    while (!done) { // finds: data-race read, with line 14
        usleep(100);
        pthread_mutex_lock(&lock);
        polls++;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(void) {
    pthread_t worker, writer;
    pthread_create(&worker, 0, work, 0);
    pthread_create(&writer, 0, write_out, 0);
    pthread_join(writer, 0);
    used = 0;
    pthread_join(worker, 0);
    return 0;
}

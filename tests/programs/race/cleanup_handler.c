// A handler that runs when a thread is cancelled comes after the cancellation, but not after what the
// thread that cancels does then.
#include <pthread.h>
#include <unistd.h>

static int state;

static void clean_up(void *unused) {
    state = 2; // finds: data-race write, with line 25
    (void)unused;
}

static void *work(void *unused) {
    pthread_cleanup_push(clean_up, 0);
    for (;;)
        pause();
    pthread_cleanup_pop(1);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_cancel(thread);
    state = 1; // finds: data-race write, with line 9
    pthread_join(thread, 0);
    return 0;
}

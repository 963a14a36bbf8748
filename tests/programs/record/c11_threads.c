// C11 threads, which glibc implements behind the back of pthreads.
#include <stdio.h>
#include <threads.h>
#include <time.h>

static mtx_t mutex;
static cnd_t condition;
static once_flag once = ONCE_FLAG_INIT;
static int ready, runs;

static void initialise(void) { runs++; }

static int works(void *argument) {
    call_once(&once, initialise); // records: T0.1 once-begin
    mtx_lock(&mutex);             // records: T0.1 lock
    ready = 1;                    // records: T0.1 write
    cnd_signal(&condition);       // records: T0.1 signal
    mtx_unlock(&mutex);           // records: T0.1 unlock
    return 7 + (argument != 0);
}

int main(void) {
    mtx_init(&mutex, mtx_timed);
    cnd_init(&condition);
    thrd_t thread;
    mtx_lock(&mutex);
    thrd_create(&thread, works, 0); // records: T0 fork
    while (!ready)
        cnd_wait(&condition, &mutex); // records: T0 unlock, T0 wait, T0 lock
    mtx_unlock(&mutex);
    int result;
    thrd_join(thread, &result); // records: T0 join
    struct timespec past = {0, 0};
    mtx_lock(&mutex);
    int timed = cnd_timedwait(&condition, &mutex, &past); // records: T0 failed-wait
    printf("%d %d %d\n", result, runs, timed == thrd_timedout);
    return 0;
}

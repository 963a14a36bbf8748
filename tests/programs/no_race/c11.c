// The threads of C11: mutex, condition, call_once.
#include <threads.h>

static mtx_t m;
static cnd_t c;
static once_flag once = ONCE_FLAG_INIT;
static int ready, value, table;

static void fill(void) { table = 1; }

static int worker(void *unused) {
    (void)unused;
    call_once(&once, fill);
    mtx_lock(&m);
    value += table;
    ready = 1;
    cnd_signal(&c);
    mtx_unlock(&m);
    return 0;
}

int main(void) {
    thrd_t thread;
    mtx_init(&m, mtx_plain);
    cnd_init(&c);
    thrd_create(&thread, worker, 0);
    call_once(&once, fill);
    mtx_lock(&m);
    value += table;
    while (!ready)
        cnd_wait(&c, &m);
    value++;
    mtx_unlock(&m);
    thrd_join(thread, 0);
    return 0;
}

// As `seen_only_if_enabled`, but the level is set and read in code that was not built by norns-cc, and the
// tracer is mostly too early: a run in which it does nothing shows nothing. No constraint leads to a better
// witness, since nothing is known of the level; replays with random priorities can still show the race.
#include <pthread.h>

static volatile int level;
static int events;

__attribute__((no_sanitize("thread"), noinline)) static int get(void) { return level; }
__attribute__((no_sanitize("thread"), noinline)) static void set(void) { level = 1; }

static void *tracer(void *unused) {
    if (get())
        events++; // may find: data-race, with line 27
    return unused;
}

static void *enable(void *unused) {
    set();
    return unused;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, tracer, 0);
    pthread_create(&b, 0, enable, 0);
    events++; // may find: data-race, with line 14
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}

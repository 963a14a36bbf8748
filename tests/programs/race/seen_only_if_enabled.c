// A trace facility: what the tracer does depends on a level that a third thread sets. A schedule
// that leaves that thread out makes the tracer go another way, so the first witness of the race
// cannot be followed; the one in which the level is set first can. The tracer is late, so that
// recordings see it enabled.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int level, events;

static void *enable(void *unused) {
    pthread_mutex_lock(&m); // in the witness
    level = 1;
    pthread_mutex_unlock(&m);
    return unused;
}

static void *tracer(void *unused) {
    usleep(50000);
    pthread_mutex_lock(&m);
    int enabled = level;
    pthread_mutex_unlock(&m);
    if (enabled)
        events++; // finds: data-race, with line 32
    return unused;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, enable, 0);
    pthread_create(&b, 0, tracer, 0);
    events++; // finds: data-race, with line 24
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}

// As the program of this name with a race, but what the tracer touches is ready before the level
// is set: no schedule in which it is touched has a race.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int level, events;

static void *tracer(void *unused) {
    usleep(50000);
    pthread_mutex_lock(&m);
    int enabled = level;
    pthread_mutex_unlock(&m);
    if (enabled)
        events++;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, tracer, 0);
    events++;
    pthread_mutex_lock(&m);
    level = 1;
    pthread_mutex_unlock(&m);
    pthread_join(thread, 0);
    return 0;
}

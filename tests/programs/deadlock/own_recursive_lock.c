// A recursive lock built from a mutex, a count and an owner; the deadlock is between it and another
// mutex, and which way the code goes depends on a shared variable.
#include <pthread.h>

static pthread_mutex_t main_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static pthread_t owner;
static int depth;

static void enter(void) {
    pthread_mutex_lock(&guard);
    int mine = depth > 0 && pthread_equal(owner, pthread_self());
    pthread_mutex_unlock(&guard);
    if (!mine)
        pthread_mutex_lock(&main_lock); // finds: deadlock
    pthread_mutex_lock(&guard);
    owner = pthread_self();
    depth++;
    pthread_mutex_unlock(&guard);
}

static void leave(void) {
    pthread_mutex_lock(&guard);
    int last = --depth == 0;
    pthread_mutex_unlock(&guard);
    if (last)
        pthread_mutex_unlock(&main_lock);
}

static void *worker(void *unused) {
    enter();
    enter();
    pthread_mutex_lock(&other); // finds: deadlock
    pthread_mutex_unlock(&other);
    leave();
    leave();
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&other);
    enter();
    leave();
    pthread_mutex_unlock(&other);
    pthread_join(thread, 0);
    return 0;
}

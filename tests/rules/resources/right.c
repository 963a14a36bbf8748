// A lock keeps the tasks apart.
#include <pthread.h>

struct resource {
    _Atomic int holders;
};

static struct resource disk, tape;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int request(struct resource *resource) {
    resource->holders++;
    return 1;
}

static void rescind(struct resource *resource) { (void)resource; }
static void cancel(struct resource *resource) { resource->holders--; }
static void conflict(struct resource *one, struct resource *other) { (void)one, (void)other; }

static void *task(void *arg) {
    pthread_mutex_lock(&lock);
    if (request(&disk)) {
        rescind(&disk);
        cancel(&disk);
    }
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t thread;
    conflict(&disk, &tape);
    pthread_create(&thread, 0, task, 0);
    task(0);
    pthread_join(thread, 0);
    return 0;
}

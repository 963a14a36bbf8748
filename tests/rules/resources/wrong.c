// Nothing keeps two tasks from holding the resource at once.
#include <pthread.h>

struct resource {
    _Atomic int holders;
};

static struct resource disk, tape;

static int request(struct resource *resource) {
    resource->holders++;
    return 1;
}

static void rescind(struct resource *resource) { (void)resource; }
static void cancel(struct resource *resource) { resource->holders--; }
static void conflict(struct resource *one, struct resource *other) { (void)one, (void)other; }

static void *task(void *arg) {
    if (request(&disk)) {
        rescind(&disk);
        cancel(&disk);
    }
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

// Threads unlock mutexes whose memory they have freed. What the bytes say of the mutex then is worth nothing:
// only the use after free is reported, and nothing where the memory has become another block by then.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct object {
    char text[64];
    pthread_mutex_t m;
};

static struct object *locked(void) {
    struct object *object = calloc(1, sizeof *object);
    pthread_mutex_init(&object->m, 0);
    pthread_mutex_lock(&object->m);
    return object;
}

static void *worker(void *unused) {
    struct object *object = locked();
    free(object);                     // finds: use-after-free, with line 22
    pthread_mutex_unlock(&object->m); // finds: use-after-free use, with line 21
    return unused;
}

static void *later_worker(void *unused) {
    struct object *object = locked();
    free(object);
    struct object *other = malloc(sizeof *other);
    memset(other, 0, sizeof *other);
    pthread_mutex_unlock(&object->m);
    free(other);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    pthread_create(&thread, 0, later_worker, 0);
    pthread_join(thread, 0);
    return 0;
}

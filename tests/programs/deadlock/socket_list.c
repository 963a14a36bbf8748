// Closing one socket locks it and then the list; closing all of them locks in the opposite order.
#include <pthread.h>

#define COUNT 2
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_mutex_t lock;
    int open;
} sockets[COUNT] = {{PTHREAD_MUTEX_INITIALIZER, 1}, {PTHREAD_MUTEX_INITIALIZER, 1}};
static int opened = COUNT;

static void enter(pthread_mutex_t *lock) { pthread_mutex_lock(lock); } // finds: deadlock
static void leave(pthread_mutex_t *lock) { pthread_mutex_unlock(lock); }

static void close_one(int number) {
    enter(&sockets[number].lock);
    sockets[number].open = 0;
    enter(&list);
    opened--;
    leave(&list);
    leave(&sockets[number].lock);
}

static void *shut_down(void *unused) {
    enter(&list);
    for (int i = 0; i < COUNT; i++) {
        enter(&sockets[i].lock);
        sockets[i].open = 0;
        leave(&sockets[i].lock);
    }
    leave(&list);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, shut_down, 0);
    close_one(1);
    pthread_join(thread, 0);
    return 0;
}

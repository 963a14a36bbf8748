// A queue with a lock and a condition hands blocks from thread to thread.
#include <pthread.h>
#include <stdlib.h>

struct item {
    struct item *next;
    int value;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static struct item *head;
static int sum;

static void *producer(void *unused) {
    for (int i = 0; i < 4; i++) {
        struct item *item = malloc(sizeof *item);
        item->value = i;
        pthread_mutex_lock(&m);
        item->next = head;
        head = item;
        pthread_cond_signal(&c);
        pthread_mutex_unlock(&m);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, producer, 0);
    for (int i = 0; i < 4; i++) {
        pthread_mutex_lock(&m);
        while (!head)
            pthread_cond_wait(&c, &m);
        struct item *item = head;
        head = item->next;
        pthread_mutex_unlock(&m);
        sum += item->value;
        free(item);
    }
    pthread_join(thread, 0);
    return 0;
}

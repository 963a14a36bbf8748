// Blocks go through a locked queue and are freed by the other thread; the allocator hands the same
// bytes out again, to whoever asks. Only blocks of different lifetimes share addresses.
#include <pthread.h>
#include <stdlib.h>

struct block {
    struct block *next;
    int value;
};

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct block *queue;
static int sum;

static void *consumer(void *unused) {
    for (int i = 0; i < 12; i++) {
        pthread_mutex_lock(&m);
        while (!queue)
            pthread_cond_wait(&filled, &m);
        struct block *block = queue;
        queue = block->next;
        pthread_mutex_unlock(&m);
        sum += block->value;
        free(block);
        int *scratch = malloc(sizeof *block);
        *scratch = sum;
        free(scratch);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, consumer, 0);
    for (int i = 0; i < 12; i++) {
        struct block *block = malloc(sizeof *block);
        block->value = i;
        pthread_mutex_lock(&m);
        block->next = queue;
        queue = block;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&m);
    }
    pthread_join(thread, 0);
    return sum != 66;
}

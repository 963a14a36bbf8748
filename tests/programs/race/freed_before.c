// Memory is used after its free, which is ordered before the use: in one thread before and after the
// first one is created, by a lock, and by a join. A block that is allocated again is another one.
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int *shared, *handed, is_freed, sum;

__attribute__((noinline)) static void put(int *where) {
    *where = 1; // finds: use-after-free write, with lines 38, 48
}

static void *worker(void *unused) {
    pthread_mutex_lock(&m);
    free(shared); // finds: use-after-free, with line 45
    is_freed = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&m);
    free(handed); // finds: use-after-free, with line 51
    return unused;
}

static void again(void) {
    for (int i = 0; i < 3; i++) {
        int *block = malloc(48);
        put(block);
        free(block);
    }
}

int main(void) {
    pthread_t thread;
    shared = malloc(48);
    handed = malloc(48);
    int *early = malloc(48);
    again();
    free(early); // finds: use-after-free, with line 11
    put(early);
    *shared = *handed = 2;
    pthread_create(&thread, 0, worker, 0);
    pthread_mutex_lock(&m);
    while (!is_freed)
        pthread_cond_wait(&changed, &m);
    sum += *shared; // finds: use-after-free read, with line 16
    pthread_mutex_unlock(&m);
    int *late = malloc(48);
    free(late); // finds: use-after-free, with line 11
    put(late);
    pthread_join(thread, 0);
    sum += *handed; // finds: use-after-free read, with line 20
    return sum == 0;
}

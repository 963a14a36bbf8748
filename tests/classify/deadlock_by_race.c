// options: --values --seed 2
// Whether the locks are taken in the other order depends on a plain variable.
#include <pthread.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
static int locked;

static void *mark(void *unused) {
    locked = 1; // class: spec-violated
    return unused;
}

static void *work(void *unused) {
    pthread_mutex_lock(&a);
    if (!locked)
        pthread_mutex_lock(&a); /* takes it twice if the mark was not there yet */
    pthread_mutex_unlock(&a);
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, mark, NULL);
    pthread_create(&two, NULL, work, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    return 0;
}

// The initialiser has run before the first thread exists; all later calls pass.
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int table;

static void fill(void) {
    table = 42;
}

static void *reader(void *unused) {
    pthread_once(&once, fill);
    return table == 42 ? unused : &table;
}

int main(void) {
    pthread_once(&once, fill);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], 0, reader, 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], 0);
    }
    return 0;
}

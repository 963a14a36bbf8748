// The second lock is taken in a function that the first holder calls.
#include <pthread.h>

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static int rows, lines;

static void write_log(void) {
    pthread_mutex_lock(&log_lock); // finds: deadlock
    lines++;
    pthread_mutex_unlock(&log_lock);
}

static void *insert(void *unused) {
    pthread_mutex_lock(&table);
    rows++;
    write_log();
    pthread_mutex_unlock(&table);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, insert, 0);
    pthread_mutex_lock(&log_lock);
    pthread_mutex_lock(&table); // finds: deadlock
    lines = rows;
    pthread_mutex_unlock(&table);
    pthread_mutex_unlock(&log_lock);
    pthread_join(thread, 0);
    return 0;
}

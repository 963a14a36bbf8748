// `gmtime` returns memory of the C library, which its next call changes.
#include <pthread.h>
#include <time.h>

static struct tm *calendar_of(time_t time) {
    return gmtime(&time); // finds: data-race write, with itself
}

static void *in_thread(void *arg) {
    return calendar_of(86400) ? 0 : arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, in_thread, 0);
    struct tm *calendar = calendar_of(0);
    pthread_join(thread, 0);
    return calendar->tm_year - 70;
}

// An array is sorted while another thread adds to it. What `compare` reads is not looked at, so that
// the only accesses are those of `qsort`.
#include <pthread.h>
#include <stdlib.h>

static int scores[8] = {5, 3, 8, 1, 7, 2, 6, 4};

__attribute__((no_sanitize_thread)) static int compare(const void *one, const void *other) {
    return *(const int *)one - *(const int *)other;
}

static void *sort(void *arg) {
    qsort(scores, 6, sizeof(int), compare); // finds: data-race write, with line 20
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, sort, 0);
    scores[2]++;  // finds: data-race write, with line 13
    scores[7] = 9; // not sorted
    pthread_join(thread, 0);
    return 0;
}

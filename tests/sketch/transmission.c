// sketch: order
// After Transmission bug 1818: the peer thread uses the session's bandwidth before it is made.
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct bandwidth {
    int magic;
    int limit;
};

struct session {
    struct bandwidth *bandwidth;
};

static void *peers(void *argument) {
    struct session *session = argument;
    struct bandwidth *used = session->bandwidth; // cause (1)
    assert(used && used->magic == 42); // after (1)
    used->limit = 100;
    return NULL;
}

int main(void) {
    struct session *session = calloc(1, sizeof *session); // before (1)
    struct bandwidth *made = malloc(sizeof *made);
    made->magic = 42;
    made->limit = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, peers, session); // before (2)
    session->bandwidth = made; // cause (2)
    pthread_join(thread, NULL);
    free(made);
    free(session);
    return 0;
}

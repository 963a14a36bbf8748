// A variable of the environment is set while another thread looks one up.
#include <pthread.h>
#include <stdlib.h>

static void *look_up(void *arg) {
    return getenv("NO_SUCH_VARIABLE") ? arg : 0; // finds: data-race read, with line 12
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, look_up, 0);
    setenv("SOME_VARIABLE", "value", 1); // finds: data-race write, with line 6
    pthread_join(thread, 0);
    return 0;
}

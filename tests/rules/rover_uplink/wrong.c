// The other thread cancels while main still writes and commits.
#include <pthread.h>

static _Atomic int sent;
_Atomic int header;

static int open_connection(void) { return 1; }
static void close_connection(int connection) { (void)connection; }
static void cancel_transmission(int connection) { sent = -connection; }
static void write_buffer(int connection, int data) { sent += data * connection; }
static void commit_buffer(int connection) { (void)connection; }
static void acknowledge(void) {}

static void *operator(void *arg) {
    cancel_transmission(*(int *)arg);
    return 0;
}

int main(void) {
    pthread_t thread;
    int connection = open_connection();
    write_buffer(connection, 5);
    pthread_create(&thread, 0, operator, &connection);
    commit_buffer(connection);
    acknowledge();
    pthread_join(thread, 0);
    connection = open_connection();
    header = 1;
    commit_buffer(connection);
    acknowledge();
    close_connection(connection);
    return 0;
}

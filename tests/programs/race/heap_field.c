// A field of a shared structure on the heap.
#include <pthread.h>
#include <stdlib.h>

struct account {
    int id;
    int balance;
};

static void *worker(void *argument) {
    struct account *account = argument;
    account->balance += 10; // finds: data-race, with line 20
    return 0;
}

int main(void) {
    pthread_t thread;
    struct account *account = calloc(1, sizeof *account);
    pthread_create(&thread, 0, worker, account);
    account->balance -= 10; // finds: data-race, with line 12
    pthread_join(thread, 0);
    free(account);
    return 0;
}

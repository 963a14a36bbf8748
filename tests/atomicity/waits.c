// nothing
// Who waits for others between two accesses means no single step.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *pass(void *arg) {
    pthread_mutex_lock(&lock);
    while (turn == 0)
        pthread_cond_wait(&changed, &lock);
    turn++;
    pthread_mutex_unlock(&lock);
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, pass, 0);
    pthread_mutex_lock(&lock);
    turn = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    pthread_mutex_lock(&lock);
    printf("turn %d\n", turn);
    pthread_mutex_unlock(&lock);
    return 0;
}

// Five philosophers, each with the fork on the left first.
#include <pthread.h>

enum { PHILOSOPHERS = 5 };
static pthread_mutex_t forks[PHILOSOPHERS];

static void *dine(void *argument) {
    int seat = *(int *)argument;
    pthread_mutex_lock(&forks[seat]);
    pthread_mutex_lock(&forks[(seat + 1) % PHILOSOPHERS]); // finds: deadlock
    pthread_mutex_unlock(&forks[(seat + 1) % PHILOSOPHERS]);
    pthread_mutex_unlock(&forks[seat]);
    return 0;
}

int main(void) {
    pthread_t threads[PHILOSOPHERS];
    int seats[PHILOSOPHERS];
    for (int i = 0; i < PHILOSOPHERS; i++) {
        pthread_mutex_init(&forks[i], 0);
        seats[i] = i;
    }
    for (int i = 0; i < PHILOSOPHERS; i++)
        pthread_create(&threads[i], 0, dine, &seats[i]);
    for (int i = 0; i < PHILOSOPHERS; i++)
        pthread_join(threads[i], 0);
    return 0;
}

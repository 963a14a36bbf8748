// Threads that wait in the kernel for each other: through pipes, sockets, sleeps, time-outs, signals
// and a variable that nothing protects.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static volatile int flag, steps;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;

static void *answers(void *argument) {
    char byte;
    for (int i = 0; i < 20; i++) {
        if (read(there[0], &byte, 1) != 1)
            return argument;
        byte++;
        if (write(back[1], &byte, 1) != 1)
            return argument;
    }
    struct pollfd asked = {there[0], POLLIN, 0};
    poll(&asked, 1, -1);
    usleep(2000);
    flag = 1;
    return argument;
}

static void *spins(void *argument) {
    while (!flag)
        steps = steps + 1;
    sem_post(&semaphore);
    return argument;
}

static void *waits(void *argument) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (result == 0)
        result = pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    return (void *)(long)(result == ETIMEDOUT ? 1 : 2);
}

static void *until_signal(void *argument) {
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &signal);
    return (void *)(long)signal;
}

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    if (pipe(there) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, back) != 0)
        return 1;
    sem_init(&semaphore, 0, 0);
    pthread_t one, two, three, four;
    pthread_create(&one, 0, answers, 0);
    pthread_create(&two, 0, spins, 0);
    pthread_create(&three, 0, waits, 0);
    pthread_create(&four, 0, until_signal, 0);
    char byte = 0;
    for (int i = 0; i < 20; i++) {
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 2;
        struct timespec little = {0, 100000};
        nanosleep(&little, 0);
    }
    if (write(there[1], &byte, 1) != 1)
        return 3;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    sem_wait(&semaphore);
    sleep(1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    void *timed_out, *signal;
    pthread_kill(four, SIGUSR1);
    pthread_join(one, 0);
    pthread_join(two, 0);
    pthread_join(three, &timed_out);
    pthread_join(four, &signal);
    double slept = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    printf("%d %d %ld %d %s\n", byte, flag, (long)timed_out, (long)signal == SIGUSR1, slept >= 0.99 ? "slept" : "too early");
    return 0;
}

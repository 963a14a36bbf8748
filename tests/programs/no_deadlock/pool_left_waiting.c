// Three workers share two jobs. Which of them wait for more when main returns differs from run to run.
#include <pthread.h>

static int jobs, done;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;

static void *work_on(void *arg) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (!jobs)
            pthread_cond_wait(&work, &mutex);
        jobs--;
        done++;
        pthread_cond_signal(&finished);
    }
    return arg;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, 0, work_on, 0);
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&mutex);
        jobs++;
        pthread_cond_signal(&work);
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_lock(&mutex);
    while (done < 2)
        pthread_cond_wait(&finished, &mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}

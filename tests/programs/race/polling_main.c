// Two workers count without a lock, and main polls until both are done. How often it polls differs from run
// to run, so that no schedule of a recording can be followed to its end.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int finished, counter;

static void *worker(void *unused) {
    for (int i = 0; i < 3; i++) {
        counter++; // finds: data-race, with itself
        usleep(300);
    }
    pthread_mutex_lock(&m);
    finished++;
    pthread_mutex_unlock(&m);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, worker, 0);
    for (int done = 0; done < 2; usleep(100)) {
        pthread_mutex_lock(&m);
        done = finished;
        pthread_mutex_unlock(&m);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return counter == 0;
}

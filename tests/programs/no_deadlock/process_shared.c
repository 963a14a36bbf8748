// Main waits until a thread and a child process have both counted: it may be the child that ends the wait.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t counted;
    int count;
};

static struct shared *shared;

static void *count(void *unused) {
    pthread_mutex_lock(&shared->lock);
    shared->count++;
    pthread_cond_broadcast(&shared->counted);
    pthread_mutex_unlock(&shared->lock);
    return unused;
}

int main(void) {
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t of_lock;
    pthread_mutexattr_init(&of_lock);
    pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &of_lock);
    pthread_condattr_t of_condition;
    pthread_condattr_init(&of_condition);
    pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->counted, &of_condition);
    pid_t child = fork();
    if (child == 0) {
        count(0);
        _exit(0);
    }
    pthread_t thread;
    pthread_create(&thread, 0, count, 0);
    pthread_mutex_lock(&shared->lock);
    while (shared->count < 2)
        pthread_cond_wait(&shared->counted, &shared->lock);
    pthread_mutex_unlock(&shared->lock);
    pthread_join(thread, 0);
    waitpid(child, 0, 0);
    return 0;
}

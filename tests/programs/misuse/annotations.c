// What the program says of its own lock contradicts itself; of the other lock it does not.
#include <pthread.h>

void AnnotateRWLockAcquired(const char *file, int line, void *lock, long is_write);
void AnnotateRWLockReleased(const char *file, int line, void *lock, long is_write);

static int lock, other;

static void *worker(void *unused) {
    AnnotateRWLockAcquired(__FILE__, __LINE__, &lock, 1); // finds: contradicted use
    AnnotateRWLockReleased(__FILE__, __LINE__, &lock, 1);
    AnnotateRWLockAcquired(__FILE__, __LINE__, &other, 0);
    AnnotateRWLockAcquired(__FILE__, __LINE__, &other, 0);
    AnnotateRWLockReleased(__FILE__, __LINE__, &other, 0);
    AnnotateRWLockReleased(__FILE__, __LINE__, &other, 0);
    return unused;
}

int main(void) {
    pthread_t thread;
    AnnotateRWLockReleased(__FILE__, __LINE__, &lock, 1); // finds: contradicted use
    AnnotateRWLockAcquired(__FILE__, __LINE__, &other, 1);
    AnnotateRWLockReleased(__FILE__, __LINE__, &other, 1);
    AnnotateRWLockAcquired(__FILE__, __LINE__, &lock, 1);
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return 0;
}

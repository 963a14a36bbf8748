// The output differs from run to run by itself: it has an address in it. The race changes nothing.
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int touched;

static void *touch(void *unused) {
    touched = 1; // class: harmless
    return unused;
}

int main(void) {
    pthread_t one, two;
    pthread_create(&one, NULL, touch, NULL);
    pthread_create(&two, NULL, touch, NULL);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
    printf("process %ld touched %d\n", syscall(SYS_getpid), touched);
    return 0;
}

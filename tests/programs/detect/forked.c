// The parent has threads and a lock that one of them holds while it forks; the child starts
// threads of its own, whose race must be seen, and nothing of the parent's counts there.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int shared, parents;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *in_parent(void *unused) {
    pthread_mutex_lock(&lock);
    parents++;
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *in_child(void *unused) {
    shared++; // finds: data-race
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[2];
    if (count > 1 && strcmp(words[1], "again") == 0) {
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], 0, in_child, 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], 0);
        return 5;
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, in_parent, 0);
    pid_t child = fork();
    if (child == 0) {
        parents = 7; // ordered: only this thread came with the fork
        if (count > 1 && strcmp(words[1], "exec") == 0)
            execl(words[0], words[0], "again", (char *)0);
        if (count > 1 && strcmp(words[1], "alone") == 0)
            _exit(parents - 7);
        pthread_t mine[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&mine[i], 0, in_child, 0);
        for (int i = 0; i < 2; i++)
            pthread_join(mine[i], 0);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return WEXITSTATUS(status);
}

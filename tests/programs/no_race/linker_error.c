// What `dlerror` returns is there until the next call of the dynamic linker by the program itself.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *worker(void *unused) {
    char copy[256];
    if (dlopen("no such library", RTLD_NOW)) return unused;
    const char *error = dlerror();
    snprintf(copy, sizeof copy, "%s", error);
    if (!strstr(error, "no such library") || atoi(error) || strcmp(error, copy)) abort();
    return unused;
}

int main(void) {
    pthread_t thread;
    if (!dlopen("no such library", RTLD_NOW)) printf("%s\n", dlerror());
    pthread_create(&thread, 0, worker, 0);
    pthread_join(thread, 0);
    return 0;
}

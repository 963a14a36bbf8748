// Memory and string functions are accesses to ranges.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char a[256], b[256];
static char untouched[] = "some text that nobody wrote";
static volatile size_t size = 100;

static void *works(void *argument) {
    memset(a, 'x', size); // records: T0.1 write
    memcpy(b, a, size);   // records: T0.1 write, T0.1 no read
    memmove(a + 1, a, size);
    a[size] = 0;
    printf("%zu %d %d\n", strlen(a), strcmp(a, b) != 0, memcmp(a, b, size));
    strcpy(b, "one");
    strcat(b, " two");
    strncat(b, " three", 3);
    strncpy(a, b, size);
    printf("%s %s %d\n", a, strchr(a, 't'), strncmp(a, b, 5));
    char *copy = strdup(a); // records: T0.1 write
    printf("%s %s %d\n", strrchr(copy, ' '), strstr(copy, "wo"), strcasecmp(copy, "ONE TWO TH"));
    free(copy);
    printf("%zu\n", strlen(untouched)); // records: T0.1 read
    bzero(a, size);
    printf("%zu %p\n", strnlen(a, 10), memchr(a, 'q', size));
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, works, 0);
    pthread_join(thread, 0);
    return 0;
}

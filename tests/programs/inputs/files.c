// Changes files in every way that there is, and goes on only if they are as they were at the start: a
// run that finds what an earlier one left exits with the line of the step that failed. In the current
// folder there must be `log`, `stale` and `old`, and nothing that is created below. The race at the end
// can be confirmed by a replay only if the files look the same there.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int runs;

#define must(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d\n", __LINE__);                                                                    \
            _exit(3);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void put(const char *path, int flags, const char *text) {
    int file = open(path, flags, 0644);
    must(file >= 0);
    must(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

static const char *get(const char *path) {
    static char text[256];
    FILE *file = fopen(path, "r");
    must(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static void *count(void *arg) {
    runs++; // the race
    return arg;
}

int main(void) {
    struct stat status;
    must(!strcmp(get("log"), "one\n"));
    FILE *log = fopen("log", "a");
    fputs("two\n", log);
    fclose(log);
    must(!strcmp(get("log"), "one\ntwo\n"));
    must(truncate("log", 4) == 0 && stat("log", &status) == 0 && status.st_size == 4);
    put("log", O_WRONLY | O_APPEND, "three\n");

    put("new", O_WRONLY | O_CREAT | O_EXCL, "new\n");
    must(access("new", R_OK) == 0);
    must(unlink("stale") == 0 && access("stale", F_OK) != 0 && stat("stale", &status) != 0);
    put("stale", O_WRONLY | O_CREAT | O_EXCL, "again\n");

    must(rename("old", "renamed") == 0 && access("old", F_OK) != 0);
    must(!strcmp(get("renamed"), "old\n"));
    put("log.tmp", O_WRONLY | O_CREAT | O_TRUNC, "replaced\n");
    must(rename("log.tmp", "log") == 0 && !strcmp(get("log"), "replaced\n"));

    must(mkdir("folder", 0755) == 0 && mkdir("folder", 0755) != 0);
    put("folder/inside", O_WRONLY | O_CREAT | O_EXCL, "inside\n");
    DIR *folder = opendir("folder");
    int names = 0;
    while (readdir(folder)) {
        names++;
    }
    closedir(folder);
    must(names == 3);
    must(mkdir("empty", 0755) == 0 && rmdir("empty") == 0);
    must(symlink("log", "link") == 0 && !strcmp(get("link"), "replaced\n"));

    char name[] = "./temporary-XXXXXX";
    int temporary = mkstemp(name);
    must(temporary >= 0 && !strstr(name, "XXXXXX") && access(name, F_OK) == 0);
    close(temporary);
    must(unlink(name) == 0 && access(name, F_OK) != 0);

    pthread_t one, other;
    pthread_create(&one, 0, count, 0);
    pthread_create(&other, 0, count, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
    return 0;
}

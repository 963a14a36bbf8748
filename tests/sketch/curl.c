// sketch: value or branch
// After curl bug 965: a pattern with unbalanced braces leaves no current URL. No thread is needed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct pattern {
    const char *text;
    int open;
    const char *current;
};

static void parse(struct pattern *pattern) {
    for (const char *c = pattern->text; *c; c++) {
        if (*c == '{')
            pattern->open++; // before (2)
        if (*c == '}')
            pattern->open--;
    }
    if (pattern->open == 0) // cause (1)
        pattern->current = pattern->text;
}

int main(void) {
    static const char *const texts[] = {"{a}", "{b}{c}", "{}{", "d"};
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) != 1)
        return 2;
    struct pattern *pattern = calloc(1, sizeof *pattern); // before (1)
    pattern->text = texts[byte % 4];
    parse(pattern);
    printf("%d characters\n", (int)pattern->current[0]); // after (1)
    free(pattern);
    return 0;
}

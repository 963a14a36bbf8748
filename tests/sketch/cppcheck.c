// sketch: value or branch
// After cppcheck bug 3238: the token after the last one is followed. No thread is needed.
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

struct token {
    int kind;
    struct token *next;
};

static struct token *add(struct token *list, int kind) {
    struct token *token = malloc(sizeof *token);
    token->kind = kind;
    token->next = list; // before (1)
    return token;
}

static int after_template(struct token *token) {
    while (token->kind != '>') // after (1)
        token = token->next; // cause (1)
    return token->kind;
}

int main(void) {
    static const char *const texts[] = {">T<", "> T <", "T<", ">>T<"};
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) != 1)
        return 2;
    struct token *list = NULL;
    for (const char *c = texts[byte % 4]; *c; c++)
        list = add(list, *c);
    printf("%c\n", after_template(list));
    return 0;
}

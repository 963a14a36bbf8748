// A text is printed while another thread changes it.
#include <pthread.h>
#include <stdio.h>

static char title[16] = "draft";
static char name[16] = "someone";

static void *rename_it(void *arg) {
    title[0] = 'D'; // finds: data-race write, with line 21
    name[2] = 'M';  // finds: data-race write, with line 19
    name[9] = 'x';  // behind the end of the text
    title[5] = ' '; // finds: data-race write, with line 21
    return arg;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, rename_it, 0);
    printf("%3d: %.4s\n", 1, name); // finds: data-race read, with line 10
    printf("%s%c", "", '\n');
    fputs(title, stdout); // finds: data-race read, with lines 9, 12
    pthread_join(thread, 0);
    return 0;
}

// The same race in every kind of memory.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

static int global;

struct places {
    int *of_function, *on_stack, *on_heap, *mapped;
};

static void *worker(void *argument) {
    struct places *places = argument;
    global = 1;              // finds: data-race, with line 29
    *places->of_function = 1; // finds: data-race, with line 30
    *places->on_stack = 1;    // finds: data-race, with line 31
    *places->on_heap = 1;     // finds: data-race, with line 32
    *places->mapped = 1;      // finds: data-race, with line 33
    return 0;
}

int main(void) {
    static int of_function;
    volatile int on_stack = 0;
    pthread_t thread;
    struct places places = {&of_function, (int *)&on_stack, calloc(1, sizeof(int)),
                            mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    pthread_create(&thread, 0, worker, &places);
    global = 2;           // finds: data-race, with line 14
    of_function = 2;      // finds: data-race, with line 15
    on_stack = 2;         // finds: data-race, with line 16
    *places.on_heap = 2;  // finds: data-race, with line 17
    *places.mapped = 2;   // finds: data-race, with line 18
    pthread_join(thread, 0);
    return 0;
}

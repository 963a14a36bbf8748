// Destructors of thread-local objects and of keys run after the thread's function has returned.
#include <pthread.h>
#include <thread>

static int objects, values;
static pthread_key_t key;

struct Last {
    bool used = false;
    ~Last() { objects++; } // finds: data-race write, with line 10
};
static thread_local Last last;

static void end_of_key(void *) {
    values++; // finds: data-race write, with line 15
}

static void work() {
    last.used = true;
    pthread_setspecific(key, &values);
}

int main() {
    pthread_key_create(&key, end_of_key);
    std::thread first(work), second(work);
    first.join();
    second.join();
    return 0;
}

// The destructors of thread-local objects run at the end of each thread, unlocked.
#include <thread>

static int total;

struct Counter {
    int count = 0;
    ~Counter() {
        total += count; // finds: data-race write, with itself
    }
};

static thread_local Counter mine;

int main() {
    std::thread one([] { mine.count = 1; });
    std::thread other([] { mine.count = 3; });
    one.join();
    other.join();
    return 0;
}

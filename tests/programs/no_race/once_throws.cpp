// The first initialiser throws, and the next one, of either thread, succeeds.
#include <mutex>
#include <stdexcept>
#include <thread>

static std::once_flag flag;
static std::mutex lock;
static int tries, value;

static void initialise() {
    int number;
    {
        std::lock_guard<std::mutex> guard(lock);
        number = ++tries;
    }
    if (number == 1)
        throw std::runtime_error("not yet");
    value = 42;
}

static void use() {
    for (;;) {
        try {
            std::call_once(flag, initialise);
            break;
        } catch (const std::runtime_error &) {
        }
    }
    if (value != 42)
        __builtin_abort();
}

int main() {
    std::thread one(use), other(use);
    one.join();
    other.join();
    return 0;
}

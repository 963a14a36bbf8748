// An initialiser that throws is tried again by the next thread, which sees what it has done.
#include <mutex>
#include <stdexcept>
#include <thread>

static int attempts, calls;

static int connect() {
    if (++attempts < 3)
        throw std::runtime_error("not yet");
    return attempts;
}

static int connection() {
    static int number = connect();
    return number;
}

static std::once_flag flag;

static void call() {
    if (++calls < 3)
        throw std::runtime_error("not yet");
}

template <typename Act> static void until_it_works(Act act) {
    for (;;) {
        try {
            return act();
        } catch (const std::runtime_error &) {
        }
    }
}

static void worker() {
    until_it_works([] { (void)connection(); });
    until_it_works([] { std::call_once(flag, call); });
}

int main() {
    std::thread first(worker), second(worker), third(worker);
    first.join();
    second.join();
    third.join();
    return attempts + calls - 6;
}

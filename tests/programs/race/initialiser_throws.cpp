// The failed attempt of an initialiser is protected by the next one, but not what is counted
// where the exception is caught.
#include <stdexcept>
#include <thread>

static int attempts, failures;

static int connect() {
    if (++attempts < 3)
        throw std::runtime_error("not yet");
    return attempts;
}

static int connection() {
    static int number = connect();
    return number;
}

static void first_user() {
    try {
        (void)connection();
    } catch (const std::runtime_error &) {
        failures = 1; // finds: data-race write, with line 31
    }
}

static void second_user() {
    try {
        (void)connection();
    } catch (const std::runtime_error &) {
        failures = 2; // finds: data-race write, with line 23
    }
}

int main() {
    std::thread first(first_user), second(second_user);
    first.join();
    second.join();
    return 0;
}

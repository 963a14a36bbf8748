// Two deadlocks of guards: each is shown where the program makes its guards.
#include <mutex>
#include <thread>

struct Account {
    std::mutex mutex;
    long money = 100;
};

static void transfer(Account &from, Account &to) {
    std::lock_guard<std::mutex> first(from.mutex);
    std::lock_guard<std::mutex> second(to.mutex); // candidate: deadlock
    from.money--;
    to.money++;
}

static std::mutex log_mutex, file_mutex;

static void append() {
    std::lock_guard<std::mutex> file(file_mutex);
    std::lock_guard<std::mutex> log(log_mutex); // candidate: deadlock
}

static void rotate() {
    std::lock_guard<std::mutex> log(log_mutex);
    std::lock_guard<std::mutex> file(file_mutex); // candidate: deadlock
}

int main() {
    Account a, b;
    std::thread one([&] { transfer(a, b), append(); });
    std::thread other([&] { transfer(b, a), rotate(); });
    one.join();
    other.join();
}

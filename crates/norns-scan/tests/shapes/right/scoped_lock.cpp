// Two locks at once, whichever is named first.
#include <mutex>
#include <thread>

struct Account {
    std::mutex mutex;
    long money = 100;
};

static void transfer(Account &from, Account &to) {
    std::scoped_lock guard(from.mutex, to.mutex);
    from.money--;
    to.money++;
}

int main() {
    Account a, b;
    std::thread one([&] { transfer(a, b); }), other([&] { transfer(b, a); });
    one.join();
    other.join();
}

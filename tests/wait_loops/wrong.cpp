// A wait of C++ without a predicate and outside a loop.
#include <condition_variable>
#include <mutex>
#include <thread>

static std::mutex lock;
static std::condition_variable changed;
static int items;

int main() {
    std::unique_lock<std::mutex> held(lock);
    std::thread producer([] {
        std::lock_guard<std::mutex> held(lock);
        items++;
        changed.notify_one();
    });
    if (items == 0)
        changed.wait(held); // finds: wait-once
    items--;
    held.unlock();
    producer.join();
    return 0;
}

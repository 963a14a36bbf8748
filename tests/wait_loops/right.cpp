// Waits of C++ that are right: the loop is in the library, or written out.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

static std::mutex lock;
static std::condition_variable changed;
static int items;

static void take() {
    std::unique_lock<std::mutex> held(lock);
    changed.wait(held, [] { return items > 0; });
    items--;
}

static void take_in_loop() {
    std::unique_lock<std::mutex> held(lock);
    while (items == 0)
        changed.wait(held);
    items--;
}

static bool take_in_time() {
    std::unique_lock<std::mutex> held(lock);
    if (!changed.wait_for(held, std::chrono::seconds(60), [] { return items > 0; }))
        return false;
    items--;
    return true;
}

int main() {
    std::thread producer([] {
        for (int i = 0; i < 3; i++) {
            std::lock_guard<std::mutex> held(lock);
            items++;
            changed.notify_one();
        }
    });
    take();
    take_in_loop();
    bool in_time = take_in_time();
    producer.join();
    return in_time ? 0 : 1;
}

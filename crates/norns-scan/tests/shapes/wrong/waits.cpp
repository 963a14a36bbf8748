// Waits that do not look again, and one that keeps a lock which its waker needs.
#include <condition_variable>
#include <mutex>
#include <thread>

static std::mutex mutex, outer;
static std::condition_variable changed;
static bool ready, stop;

static void asks_once() {
    for (;;) {
        std::unique_lock<std::mutex> guard(mutex);
        if (!ready)
            changed.wait(guard); // candidate: wait-without-loop
        ready = false;
        if (stop) return;
    }
}

static void asks_again() {
    std::unique_lock<std::mutex> guard(mutex);
    changed.wait(guard, [] { return ready; });
}

static void keeps_a_lock() {
    std::lock_guard<std::mutex> first(outer);
    std::unique_lock<std::mutex> guard(mutex);
    while (!ready)
        changed.wait(guard); // candidate: wait-with-lock
}

static void wakes() {
    std::lock_guard<std::mutex> first(outer); // candidate: wait-with-lock
    std::lock_guard<std::mutex> guard(mutex);
    ready = stop = true;
    changed.notify_all();
}

int main() {
    std::thread a(asks_once), b(asks_again), c(keeps_a_lock), d(wakes);
    a.join();
    b.join();
    c.join();
    d.join();
}

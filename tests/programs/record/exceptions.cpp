// flags: -std=c++17
// C++: exceptions through instrumented frames and through call_once, statics, std::thread.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

static std::mutex mutex;
static std::condition_variable ready;
static std::once_flag once;
static int attempts, value, sum;

struct Noisy {
    int number;
    Noisy() : number(++value) {} // records: write
};

static Noisy &lazy() {
    static Noisy noisy; // records: once-begin, once-end
    return noisy;
}

static int dive(int depth) {
    if (depth == 0)
        throw std::runtime_error("bottom");
    return dive(depth - 1) + 1;
}

static void works(int number) {
    for (int i = 0; i < 50; i++) {
        try {
            dive(10);
        } catch (std::runtime_error &) {
            std::lock_guard<std::mutex> guard(mutex);
            sum += number; // records: T0.1 write, T0.2 write
        }
    }
    try {
        std::call_once(once, [] {
            if (++attempts == 1)
                throw 1;
        });
    } catch (int) {
        std::call_once(once, [] { ++attempts; });
    }
    std::lock_guard<std::mutex> guard(mutex);
    sum += lazy().number;
    ready.notify_all();
}

int main() {
    std::vector<std::thread> threads;
    for (int i = 1; i <= 4; i++)
        threads.emplace_back(works, i);
    {
        std::unique_lock<std::mutex> lock(mutex);
        ready.wait(lock, [] { return sum == 504; });
    }
    for (auto &thread : threads)
        thread.join();
    std::shared_mutex readers;
    std::shared_lock<std::shared_mutex> read(readers);
    std::printf("%d %d %d\n", sum, attempts, value);
    return 0;
}

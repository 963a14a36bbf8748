// A loop that runs functions from a queue; what they capture is used beside it. The queue is used rightly.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

class Loop {
    std::mutex mutex;
    std::condition_variable changed;
    std::queue<std::function<void()>> queue;
    bool done = false;
    std::thread thread;

    void run() {
        for (;;) {
            std::function<void()> next;
            {
                std::unique_lock<std::mutex> guard(mutex);
                changed.wait(guard, [this] { return done || !queue.empty(); });
                if (queue.empty()) return;
                next = std::move(queue.front());
                queue.pop();
            }
            next();
        }
    }

public:
    Loop() : thread([this] { run(); }) {}
    ~Loop() {
        {
            std::lock_guard<std::mutex> guard(mutex);
            done = true;
        }
        changed.notify_all();
        thread.join();
    }
    void post(std::function<void()> next) {
        {
            std::lock_guard<std::mutex> guard(mutex);
            queue.push(std::move(next));
        }
        changed.notify_one();
    }
};

int main() {
    int hits = 0;
    {
        Loop loop;
        loop.post([&hits] {
            hits++; // candidate: data-race, with 55
        });
        hits += 10; // candidate: data-race, with 53
    }
    return hits;
}

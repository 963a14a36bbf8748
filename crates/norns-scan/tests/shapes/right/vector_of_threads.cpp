// A loop over a vector joins all threads in it.
#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutex;
static int sum;

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([] {
            std::lock_guard<std::mutex> guard(mutex);
            sum++;
        });
    }
    for (auto &thread : threads) thread.join();
    return sum;
}

// A map of the library, guarded by a lock on both sides.
#include <map>
#include <mutex>
#include <thread>

static std::mutex m;
static std::map<int, int> prices;
static int seen;

int main() {
    std::thread writer([] {
        std::lock_guard<std::mutex> guard(m);
        prices[1] = 11;
    });
    std::thread reader([] {
        std::lock_guard<std::mutex> guard(m);
        auto found = prices.find(1);
        if (found != prices.end())
            seen = found->second;
    });
    writer.join();
    reader.join();
    return 0;
}

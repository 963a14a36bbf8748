// A member is changed after its guard was unlocked; what main destroys after the joins is no candidate.
#include <mutex>
#include <thread>
#include <vector>

class Cache {
    std::mutex mutex;
    std::vector<int> items;
    int hits = 0;

public:
    void put(int item) {
        std::lock_guard<std::mutex> guard(mutex);
        items.push_back(item);
    }
    int size() {
        std::unique_lock<std::mutex> guard(mutex);
        int size = items.size();
        guard.unlock();
        hits++; // candidate: data-race, with 20
        return size;
    }
};

int main() {
    Cache cache;
    std::thread writer([&] { cache.put(cache.size()); });
    std::thread reader([&] { cache.size(); });
    writer.join();
    reader.join();
}

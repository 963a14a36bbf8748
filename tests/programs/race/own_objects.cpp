// Threads make and delete objects of their own, and count in common.
#include <memory>
#include <thread>
#include <vector>

struct Item {
    int weight;
    std::vector<int> parts;
};

static long total;

static void work() {
    for (int i = 0; i < 3; i++) {
        auto item = std::make_unique<Item>(Item{i, {1, 2, 3}});
        total += item->weight; // finds: data-race, with itself
    }
}

int main() {
    std::thread one(work), other(work);
    one.join();
    other.join();
}

// Blocks of the heap that are given out again, by threads of the C++ library: what it frees in
// one thread is often what the next one gets, with other sizes asked for.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static size_t length(int number) {
    auto text = std::make_unique<std::string>(20 + number, 'x');
    return text->size();
}

int main() {
    size_t total = 0;
    for (int i = 0; i < 4; i++) {
        std::thread first([] {});
        std::thread second([i] { length(i); });
        auto later = std::async(std::launch::async, length, i);
        first.join();
        second.join();
        total += later.get();
    }
    return total == 86 ? 0 : 1;
}

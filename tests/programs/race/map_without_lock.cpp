// The accesses are in headers of the library; they are shown where the program calls it.
#include <map>
#include <mutex>
#include <thread>

static std::mutex m;
static std::map<int, int> prices = {{1, 10}, {2, 20}};
static int seen;

int main() {
    std::thread writer([] {
        std::lock_guard<std::mutex> guard(m);
        prices[1] = 11; // finds: data-race write, with line 16
    });
    std::thread reader([] {
        seen = prices.at(1); // finds: data-race read, with line 13
    });
    writer.join();
    reader.join();
    return 0;
}

// A static variable of a function is initialised by the first thread that comes; the others wait.
#include <map>
#include <mutex>
#include <string>
#include <thread>

static const std::map<std::string, int> &prices() {
    static const std::map<std::string, int> table = {{"bread", 3}, {"milk", 2}};
    return table;
}

static std::once_flag flag;
static int value;

static void worker() {
    std::call_once(flag, [] { value = prices().at("bread"); });
    if (prices().at("milk") + value != 5)
        std::terminate();
}

int main() {
    std::thread first(worker), second(worker), third(worker);
    first.join();
    second.join();
    third.join();
    return 0;
}

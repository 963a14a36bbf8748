// options: --values --seed 1
// An index that is read without a lock can be past the end: the exception ends the program.
#include <cstdio>
#include <thread>
#include <vector>

static volatile int index_of_last = 0;
static std::vector<int> values{1, 2, 3};

static void advance() {
    index_of_last = 3; // class: spec-violated
    index_of_last = 2; // class: spec-violated
}

int main() {
    std::thread thread(advance);
    int at = index_of_last;
    if (values.at(at) < 4)
        std::puts("small");
    thread.join();
}

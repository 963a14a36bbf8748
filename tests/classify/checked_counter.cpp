// Two threads count without a lock, and the program prints whether they were right.
#include <cstdio>
#include <thread>

static int count;

static void add() {
    int before = count;  // class: output-differs
    count = before + 1;  // class: output-differs
}

int main() {
    std::thread one(add), two(add);
    one.join();
    two.join();
    std::puts(count == 2 ? "right" : "wrong");
}

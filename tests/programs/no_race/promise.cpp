// A promise orders what is before it and what is after its future. The library of C++ waits for
// it in the kernel, not with pthreads: a replay must see that nobody can end that wait.
// all refuted
#include <future>
#include <thread>

int main() {
    std::promise<int> promise;
    auto future = promise.get_future();
    int before = 0;
    std::thread other([&] {
        before = 1;
        promise.set_value(41);
    });
    int sum = future.get() + before;
    other.join();
    return sum == 42 ? 0 : 1;
}

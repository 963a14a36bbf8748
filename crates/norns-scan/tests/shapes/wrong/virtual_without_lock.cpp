// One of two virtual functions locks.
#include <memory>
#include <mutex>
#include <thread>

struct Shape {
    virtual ~Shape() = default;
    virtual void grow() = 0;
    int size = 0;
    std::mutex mutex;
};
struct Square : Shape {
    void grow() override {
        std::lock_guard<std::mutex> guard(mutex);
        size += 2; // candidate: data-race, with 20
    }
};
struct Circle : Shape {
    void grow() override {
        size += 3; // candidate: data-race, with 15 and 20
    }
};

int main(int count, char **) {
    std::unique_ptr<Shape> shape;
    if (count > 1)
        shape = std::make_unique<Square>();
    else
        shape = std::make_unique<Circle>();
    std::thread one([&] { shape->grow(); }), other([&] { shape->grow(); });
    one.join();
    other.join();
}

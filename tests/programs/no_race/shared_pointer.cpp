// The last owner destroys the object, whoever that is: the count orders it after all uses.
#include <memory>
#include <thread>

struct Object {
    int value = 1;
    ~Object() { value = 0; }
};

int main() {
    auto object = std::make_shared<Object>();
    auto use = [object] {
        auto own = object;
        if (own->value != 1)
            std::terminate();
    };
    std::thread first(use), second(use);
    object.reset();
    first.join();
    second.join();
    return 0;
}

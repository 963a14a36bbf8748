// A thread begins with a member function; its object, whose first member is a mutex, ends behind the joins.
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual void grow() = 0;
    int size = 0;
};
struct Square : Shape {
    void grow() override { size += 2; }
};
struct Scene {
    std::mutex mutex;
    std::vector<std::unique_ptr<Shape>> shapes;
    void grow() {
        std::lock_guard<std::mutex> guard(mutex);
        for (auto &shape : shapes) shape->grow();
    }
};

int main() {
    Scene scene;
    scene.shapes.push_back(std::make_unique<Square>());
    std::thread one(&Scene::grow, &scene), other(&Scene::grow, &scene);
    one.join();
    other.join();
    return scene.shapes[0]->size;
}

// Hand-made synchronisation in both directions: each side waits for the other's flag.
#include <cstdio>
#include <thread>

static volatile bool asked, answered;
static int question, answer;

static void serve() {
    while (!asked)
        ;
    answer = question + 1; // class: single-ordering
    answered = true;       // class: harmless
}

int main() {
    std::thread server(serve);
    question = 41; // class: single-ordering
    asked = true;  // class: harmless
    while (!answered)
        ;
    std::printf("answer %d\n", answer);
    server.join();
}

// A server of cpp-httplib and four clients of it in one process, as its README shows them.
#include "httplib.h"
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>
int main() {
  httplib::Server svr;
  svr.Get("/hi", [](const httplib::Request &, httplib::Response &res) { res.set_content("Hello World!", "text/plain"); });
  svr.Get(R"(/numbers/(\d+))", [&](const httplib::Request &req, httplib::Response &res) { res.set_content(req.matches[1], "text/plain"); });
  svr.Post("/content", [](const httplib::Request &req, httplib::Response &res) { res.set_content(req.body, "text/plain"); });
  int port = svr.bind_to_any_port("127.0.0.1");
  std::thread server([&] { svr.listen_after_bind(); });
  while (!svr.is_running()) std::this_thread::yield();
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  for (int n = 0; n < 4; n++) clients.emplace_back([&, n] {
    httplib::Client cli("127.0.0.1", port);
    for (int i = 0; i < 20; i++) {
      if (auto r = cli.Get("/hi")) good += r->status == 200;
      if (auto r = cli.Get(("/numbers/" + std::to_string(i)).c_str())) good += r->status == 200;
      if (auto r = cli.Post("/content", std::string(1000, 'a' + n), "text/plain")) good += r->status == 200;
    }
  });
  for (auto &c : clients) c.join();
  svr.stop(); server.join();
  printf("%d\n", good.load());
}

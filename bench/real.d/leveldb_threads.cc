// Three threads that put and get through one LevelDB database with a small write buffer, so that the
// background compaction runs as well.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "leveldb/db.h"

static void work(leveldb::DB *db, int number) {
  std::string value;
  for (int i = 0; i < 3000; i++) {
    std::string key = std::to_string(number) + "." + std::to_string(i);
    db->Put(leveldb::WriteOptions(), key, std::string(200, 'x'));
    db->Get(leveldb::ReadOptions(), key, &value);
  }
}

int main() {
  leveldb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  leveldb::DestroyDB("database", options);
  leveldb::DB *db;
  leveldb::Status status = leveldb::DB::Open(options, "database", &db);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++)
    threads.emplace_back(work, db, i);
  for (auto &thread : threads)
    thread.join();
  delete db;
}

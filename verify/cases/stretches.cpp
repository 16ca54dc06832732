#include "verify/cases/stretches.h"

#include <fmt/format.h>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/optimizer/checkpoint_index.h"

namespace verify {

namespace {

class WatchedStore : public sim::MemoryStore {
 public:
  void write(const std::string& name, std::string_view bytes) override {
    require_unnamed(name, "written");
    MemoryStore::write(name, bytes);
  }
  void replace(const std::string& name, std::string_view bytes) override {
    MemoryStore::write(name, bytes);
    if (name != "index.json") return;
    const sim::CheckpointIndex index = sim::index_of(bytes);
    const std::lock_guard lock(mutex_);
    named_.clear();
    for (const auto& file : index.files) named_.insert(file.first);
  }
  void remove(const std::string& name) override {
    require_unnamed(name, "removed");
    MemoryStore::remove(name);
  }

 private:
  void require_unnamed(const std::string& name, const char* what) {
    const std::lock_guard lock(mutex_);
    if (named_.contains(name))
      throw std::logic_error(fmt::format("{} is {} while the index of the checkpoint names it", name, what));
  }

  std::mutex mutex_;
  std::set<std::string> named_;  // the files that the index names
};

}  // namespace

std::shared_ptr<sim::CheckpointStore> watched_store() { return std::make_shared<WatchedStore>(); }

}  // namespace verify

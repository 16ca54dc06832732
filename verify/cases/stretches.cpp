#include "verify/cases/stretches.h"

#include <fmt/format.h>
#include <optional>
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
  void replace(const std::string& name, std::string_view bytes) override { MemoryStore::write(name, bytes); }
  void remove(const std::string& name) override {
    require_unnamed(name, "removed");
    MemoryStore::remove(name);
  }

 private:
  void require_unnamed(const std::string& name, const char* what) {
    const std::optional<std::string> index = read("index.json");
    if (index && sim::index_of(*index).files.contains(name))
      throw std::logic_error(fmt::format("{} is {} while the index of the checkpoint names it", name, what));
  }
};

}  // namespace

std::shared_ptr<sim::CheckpointStore> watched_store() { return std::make_shared<WatchedStore>(); }

}  // namespace verify

#include "verify/cases/stretches.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/keyed_random.h"
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

std::vector<CaseSetting> in_stretches(const CaseSetting& whole, CaseSetting between) {
  const sim::KeyedRandom random = sim::KeyedRandom(whole.seed).named("stretches");
  const auto steps = static_cast<std::uint32_t>(whole["steps"]);
  const std::int64_t stop = 1 + random.below(0, steps);
  const bool is_exact = whole.dtype == sim::DType::field;
  const std::int64_t go_on = is_exact ? std::min<std::int64_t>(stop + 1, steps) : stop;
  const auto store = std::make_shared<WatchedStore>();
  CaseSetting first = whole, last = whole;
  first.stretch = {.first = 0, .last = stop, .store = store};
  between.stretch = {.first = stop, .last = go_on, .store = store};
  last.stretch = {.first = go_on, .last = steps, .saves = false, .store = store};
  return {std::move(first), std::move(between), std::move(last)};
}

}  // namespace verify

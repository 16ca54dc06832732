#include "sim/optimizer/checkpoint_store.h"

namespace sim {

void MemoryStore::write(const std::string& name, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  files_[name] = bytes;
}

void MemoryStore::replace(const std::string& name, std::string_view bytes) {
  MemoryStore::write(name, bytes);
}

void MemoryStore::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  files_.erase(name);
}

std::optional<std::string> MemoryStore::read(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(name);
  return known == files_.end() ? std::nullopt : std::optional(known->second);
}

std::vector<std::string> MemoryStore::names() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_) names.push_back(name);
  return names;
}

}  // namespace sim

#include "sim/base/site.h"

#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace sim {

Site Site::named(std::string_view name, std::source_location location) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  Site site = "";
  site.file = location.file_name();
  site.line = location.line();
  const std::lock_guard lock(mutex);
  const auto known = names.find(name);
  site.name = (known == names.end() ? *names.emplace(name).first : *known).c_str();
  return site;
}

std::string text_of(const Site& site) { return fmt::format("'{}' ({}:{})", site.name, site.file, site.line); }

}  // namespace sim

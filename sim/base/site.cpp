#include "sim/base/site.h"

#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace sim {

#if defined(__SANITIZE_ADDRESS__)
extern const char shardproof_has_no_address_sanitizer__build_it_with_SHARDPROOF_SANITIZE_address = 0;
#endif

namespace {

/// Returns the text, which is kept for the life of the process.
const char* kept(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> texts;
  const std::lock_guard lock(mutex);
  const auto known = texts.find(text);
  return (known == texts.end() ? *texts.emplace(text).first : *known).c_str();
}

}  // namespace

Site Site::named(std::string_view name, std::source_location location) {
  Site site = "";
  site.name = kept(name);
  site.file = location.file_name();
  site.line = location.line();
  return site;
}

Site Site::at(std::string_view name, std::string_view file, std::int64_t line) {
  Site site = "";
  site.name = kept(name);
  site.file = kept(file);
  site.line = line;
  return site;
}

std::string text_of(const Site& site) { return fmt::format("'{}' ({}:{})", site.name, site.file, site.line); }

}  // namespace sim

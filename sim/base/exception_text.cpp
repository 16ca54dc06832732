#include "sim/base/exception_text.h"

#include <fmt/format.h>
#include <string_view>

namespace sim {

std::string text_of(const std::exception& error) {
  const char* const what = error.what();
  if (what == nullptr) return "(no text)";
  const std::string_view text = what;
  if (text.size() <= kMostExceptionBytes) return std::string(text);
  return fmt::format("{} ... ({} more bytes)", text.substr(0, kMostExceptionBytes),
                     text.size() - kMostExceptionBytes);
}

}  // namespace sim

#include "verify/output/warnings_text.h"

#include <fmt/format.h>

namespace verify {

std::string warnings_text(const std::vector<sim::Warning>& warnings) {
  std::string text;
  for (const sim::Warning& warning : warnings) {
    text += fmt::format("\nwarning [{}] {}\n", warning.name, warning.message);
  }
  return text;
}

}  // namespace verify

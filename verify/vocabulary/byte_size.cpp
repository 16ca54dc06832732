#include "verify/vocabulary/byte_size.h"

#include <charconv>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/error.h"

namespace verify {

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"", 1},
                           {"B", 1},
                           {"kB", 1e3},
                           {"KB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"TB", 1e12},
                           {"KiB", 1024.0},
                           {"MiB", 1048576.0},
                           {"GiB", 1073741824.0},
                           {"TiB", 1099511627776.0}};

[[noreturn]] void refuse_size(const std::string& option, const std::string& text) {
  sim::refuse({.code = "memory_size",
               .option = "--" + option,
               .numbers = fmt::format("'{}'", text),
               .rule =
                   "memory is a number from 1 byte to 2^60 bytes with a unit: B, kB, MB, GB or TB (powers "
                   "of 1000), or KiB, MiB, GiB or TiB (powers of 1024); without a unit it is 1 MiB or more",
               .hint = fmt::format("--{} 80GB", option)});
}

}  // namespace

std::int64_t byte_size(const std::string& option, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) refuse_size(option, text);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  constexpr double kMost = std::int64_t{1} << 60;
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    const double bytes = number * known.bytes;
    if (!(bytes >= 1 && bytes <= kMost)) break;
    if (unit.empty() && bytes < 1048576.0) break;  // "80" are hardly 80 bytes
    return static_cast<std::int64_t>(bytes);
  }
  refuse_size(option, text);
}

}  // namespace verify

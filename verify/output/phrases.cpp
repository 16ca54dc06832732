#include "verify/output/phrases.h"

#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>
#include <vector>

#include "sim/base/printable_text.h"

namespace verify {

std::string counted(std::int64_t count, const char* noun) {
  const std::string_view word = noun;
  const bool hisses = word.ends_with("ch") || word.ends_with("ss");
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : hisses ? "es" : "s");
}

std::string capital(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() += 'A' - 'a';
  return text;
}

std::string reduced_size(const char* name, int reduced, int whole) {
  return reduced == whole ? fmt::format("{} {}", name, whole)
                          : fmt::format("{} {} for {}", name, reduced, whole);
}

std::string byte_text(std::int64_t bytes) {
  constexpr std::int64_t kExact = 10'000;
  if (bytes < kExact) return fmt::format("{} B", bytes);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  const char* const* unit = kUnits;
  for (; value >= 1024 && unit != std::end(kUnits) - 1; ++unit) value /= 1024;
  return fmt::format("{:.2f} {}", value, *unit);
}

std::string grouped_digits(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? fmt::format("-{}", fmt::group_digits(0 - bits))
                    : fmt::format("{}", fmt::group_digits(bits));
}

std::string cell_text(const sim::RankGrid& grid, int rank) {
  const sim::PerAxis<int> coordinates = grid.coordinates_of(rank);
  std::string text;
  for (const sim::Axis axis : {sim::Axis::tp, sim::Axis::cp, sim::Axis::dp, sim::Axis::pp}) {
    const char initial = sim::kAxisNames[static_cast<std::size_t>(axis)][0];
    if (grid.size(axis) > 1) text += fmt::format("{}{}", initial, coordinates[axis]);
  }
  return text;
}

namespace {

/// Returns a word in the quotes of bash and zsh that allow escapes: $'a\033b'.
std::string quoted_with_escapes(const std::string& text) {
  std::string quoted = "$'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted +=
        c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  }
  return quoted + "'";
}

}  // namespace

std::string quoted_for_shell(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_./,=:") == std::string::npos;
  if (plain) return text;
  if (sim::printable_text(text) != text) return quoted_with_escapes(text);
  return in_single_quotes(text);
}

std::string in_single_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string ranks_words(const std::vector<int>& ranks) {
  constexpr std::size_t kMostParts = 8;
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    parts.push_back(end - i > 1 ? fmt::format("{} to {}", ranks[i], ranks[end - 1])
                                : fmt::format("{}", ranks[i]));
    i = end;
  }
  if (parts.size() > kMostParts) {
    parts.resize(kMostParts);
    return fmt::format("ranks {}, ... ({} in all)", fmt::join(parts, ", "), ranks.size());
  }
  if (parts.size() == 1) return "ranks " + parts.front();
  const std::string last = parts.back();
  parts.pop_back();
  return fmt::format("ranks {} and {}", fmt::join(parts, ", "), last);
}

std::string warnings_text(const std::vector<sim::Warning>& warnings) {
  std::string text;
  for (const sim::Warning& warning : warnings) {
    text += fmt::format("\nwarning [{}] {}\n", warning.name, warning.message);
  }
  return text;
}

}  // namespace verify

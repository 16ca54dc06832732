#include "verify/requests/out_of_memory.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "sim/base/error.h"

namespace verify {

namespace {

struct UnitOfAllocator {
  std::string_view name;
  double bytes;
};
constexpr UnitOfAllocator kUnitsOfAllocator[] = {
    {"bytes", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};

/// A number with its unit, and what follows it.
struct SaidSize {
  double bytes = 0;
  double number = 0;
  std::string_view unit, rest;
};

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
void skip_blanks(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

/// Returns the size with which a text begins; nothing where it begins with none.
std::optional<SaidSize> leading_size(std::string_view text) {
  skip_blanks(text);
  SaidSize size;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size.number);
  constexpr double kLargest = 1e6;
  if (error != std::errc() || !(size.number >= 0 && size.number <= kLargest)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  skip_blanks(text);
  for (const UnitOfAllocator& unit : kUnitsOfAllocator) {
    if (!text.starts_with(unit.name)) continue;
    size.unit = unit.name;
    size.bytes = size.number * unit.bytes;
    size.rest = text.substr(unit.name.size());
    return size;
  }
  return std::nullopt;
}

/// Returns the size between the one word and the other, which are the first ones of their kind.
std::optional<std::int64_t> size_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const auto size = leading_size(text.substr(at + words.size()));
  return size ? std::optional(static_cast<std::int64_t>(size->bytes)) : std::nullopt;
}

/// Returns the size that stands before these words: that of the last two words before them.
std::optional<std::int64_t> size_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t begin = at;
  for (int word = 0; word < 2; ++word) {
    while (begin > 0 && is_blank(text[begin - 1])) --begin;
    while (begin > 0 && !is_blank(text[begin - 1]) && text[begin - 1] != '(') --begin;
  }
  const auto size = leading_size(text.substr(begin, at - begin));
  return size ? std::optional(static_cast<std::int64_t>(size->bytes)) : std::nullopt;
}

/// What one version of PyTorch says before or behind its numbers.
std::optional<FullGpu> of_newer_versions(std::string_view text) {
  auto capacity = size_behind(text, "total capacity of");
  if (!capacity) capacity = size_behind(text, "total capacty of");  // as some versions spell it
  const auto free = size_behind(text, "of which"), in_use = size_behind(text, "this process has");
  const auto in_tensors = size_before(text, " is allocated by PyTorch");
  const auto unused = size_before(text, " is reserved");
  if (!capacity || *capacity == 0 || !free || !in_tensors) return std::nullopt;
  FullGpu gpu{.capacity = *capacity, .free = *free, .in_tensors = *in_tensors, .unused = unused.value_or(0)};
  const std::int64_t elsewhere = gpu.capacity - gpu.for_tensors();
  gpu.outside = in_use ? *in_use - gpu.in_tensors - gpu.unused : elsewhere;
  gpu.outside = std::clamp<std::int64_t>(gpu.outside, 0, std::max<std::int64_t>(elsewhere, 0));
  gpu.others = std::max<std::int64_t>(elsewhere - gpu.outside, 0);
  return gpu;
}

std::optional<FullGpu> of_older_versions(std::string_view text) {
  const auto capacity = size_before(text, " total capacity"), free = size_before(text, " free;");
  const auto in_tensors = size_before(text, " already allocated");
  const auto reserved = size_before(text, " reserved in total");
  if (!capacity || *capacity == 0 || !free || !in_tensors) return std::nullopt;
  FullGpu gpu{.capacity = *capacity, .free = *free, .in_tensors = *in_tensors};
  if (reserved) gpu.unused = std::max<std::int64_t>(*reserved - *in_tensors, 0);
  gpu.outside = std::max<std::int64_t>(gpu.capacity - gpu.for_tensors(), 0);
  return gpu;
}

/// Returns the rank of the last line "[rank3]: ...", as torchrun's workers begin the lines of an error.
std::optional<int> rank_of(std::string_view text) {
  constexpr std::string_view kBefore = "[rank";
  const std::size_t at = text.rfind(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kBefore.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool is_closed = error == std::errc() && end != text.data() + text.size() && *end == ']';
  return is_closed && rank >= 0 ? std::optional(rank) : std::nullopt;
}

/// Returns the text as one line: a log may break it.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text)
    if (!is_blank(c)) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  return line;
}

std::string text_of(double number, std::string_view unit) { return fmt::format("{:.2f} {}", number, unit); }

}  // namespace

bool OutOfMemory::may_be(std::int64_t bytes) const {
  constexpr std::int64_t kSmall = std::int64_t{1} << 20, kLarge = 10 * kSmall, kRound = 2 * kSmall;
  const std::int64_t allocated = bytes <= kSmall  ? kRound
                                 : bytes < kLarge ? 2 * kLarge
                                                  : (bytes + kRound - 1) / kRound * kRound;
  // A size that a person writes may have the other unit.
  for (const UnitOfAllocator& unit : kUnitsOfAllocator)
    if (text_of(static_cast<double>(allocated) / unit.bytes, unit.name) == asked) return true;
  return false;
}

OutOfMemory out_of_memory(const std::string& given) {
  const std::string text = in_one_line(given);
  constexpr std::string_view kTried = "Tried to allocate";
  const std::size_t at = text.find(kTried);
  std::string_view words = text;
  if (at != std::string::npos) words.remove_prefix(at + kTried.size());
  const auto size = leading_size(words);
  std::string_view rest = size ? size->rest : words;
  skip_blanks(rest);
  if (!size || size->bytes < 1 || (at == std::string::npos && !rest.empty())) {
    sim::refuse({.code = "out_of_memory_text",
                 .option = "--out-of-memory",
                 .numbers = fmt::format("'{}'", text.substr(0, 100)),
                 .rule =
                     "it is a line in which PyTorch says \"Tried to allocate\" a size, or that size alone, "
                     "in MiB or GiB",
                 .hint = "--out-of-memory 20.00GiB"});
  }
  const std::string_view line = words.substr(0, words.find(kTried));
  OutOfMemory failure{.asked = text_of(size->number, size->unit),
                      .asked_bytes = static_cast<std::int64_t>(size->bytes),
                      .rank = rank_of(std::string_view(text).substr(0, at == std::string::npos ? 0 : at)),
                      .gpu = of_newer_versions(line)};
  if (!failure.gpu) failure.gpu = of_older_versions(line);
  return failure;
}

}  // namespace verify

#include "verify/requests/out_of_memory.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <regex>
#include <string_view>

#include "verify/output/refusal_table.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

struct UnitOfAllocator {
  std::string_view name;
  double bytes;
};
constexpr UnitOfAllocator kUnitsOfAllocator[] = {
    {"bytes", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};

std::string text_of(double number, std::string_view unit) { return fmt::format("{:.2f} {}", number, unit); }

/// A number with its unit.
struct SaidSize {
  std::int64_t bytes = 0;
  std::string text;  // as PyTorch writes it
};

/// Returns the first size between these words, which are regular expressions; nothing if there is none.
std::optional<SaidSize> size_in(const std::string& text, const std::string& before,
                                const std::string& behind) {
  constexpr double kLargest = 1e6;
  std::smatch match;
  const std::regex pattern(before + "([0-9]{1,9}[.]?[0-9]{0,9}|[.][0-9]{1,9}) ?(bytes|KiB|MiB|GiB)" + behind);
  if (!std::regex_search(text, match, pattern)) return std::nullopt;
  const std::optional<double> number = decimal_number(match.str(1));
  if (!number || *number > kLargest) return std::nullopt;
  const auto* unit = std::ranges::find(kUnitsOfAllocator, match.str(2), &UnitOfAllocator::name);
  return SaidSize{static_cast<std::int64_t>(*number * unit->bytes), text_of(*number, unit->name)};
}

std::optional<std::int64_t> bytes_in(const std::string& text, const std::string& before,
                                     const std::string& behind) {
  const std::optional<SaidSize> size = size_in(text, before, behind);
  return size ? std::optional(size->bytes) : std::nullopt;
}

/// Returns what a message says of the GPU: of PyTorch from 2.1 on, or before.
std::optional<FullGpu> gpu_in(const std::string& text) {
  const auto size = [&](const char* before, const char* behind, const char* behind_in_older) {
    const auto newer = bytes_in(text, before, behind);
    return newer ? newer : bytes_in(text, "", behind_in_older);
  };
  const auto capacity = size("total capaci?ty of ", "", " total capacity");  // as some versions spell it
  const auto free = size("of which ", "", " free;");
  const auto in_tensors = size("", " is allocated by PyTorch", " already allocated");
  if (!capacity || *capacity == 0 || !free || !in_tensors) return std::nullopt;
  FullGpu gpu{.capacity = *capacity, .free = *free, .in_tensors = *in_tensors};
  if (const auto unused = bytes_in(text, "", " is reserved")) {
    gpu.unused = *unused;
  } else if (const auto reserved = bytes_in(text, "", " reserved in total")) {
    gpu.unused = std::max<std::int64_t>(*reserved - *in_tensors, 0);
  }
  const std::int64_t elsewhere = std::max<std::int64_t>(gpu.capacity - gpu.for_tensors(), 0);
  const auto in_use = bytes_in(text, "this process has ", "");
  gpu.outside = in_use ? *in_use - gpu.in_tensors - gpu.unused : elsewhere;
  gpu.outside = std::clamp<std::int64_t>(gpu.outside, 0, elsewhere);
  gpu.others = elsewhere - gpu.outside;
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
  constexpr std::string_view kTried = "Tried to allocate";
  std::string text = given;  // a log may break it
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isspace(c) != 0; }, ' ');
  const auto are_blanks = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), are_blanks), text.end());
  const std::size_t at = text.find(kTried);
  const bool is_message = at != std::string::npos;
  const std::string words = is_message ? text.substr(at + kTried.size()) : text;
  const std::string line = words.substr(0, words.find(kTried));
  const std::optional<SaidSize> size = size_in(line, "^ ?", is_message ? "" : " ?$");
  if (!size || size->bytes < 1) refuse_by("out_of_memory_text", "--out-of-memory", text.substr(0, 100));
  return {.asked = size->text,
          .asked_bytes = size->bytes,
          .rank = rank_of(std::string_view(text).substr(0, is_message ? at : 0)),
          .gpu = gpu_in(line)};
}

}  // namespace verify

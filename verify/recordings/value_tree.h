#pragma once

/// The values of a parsed file, pickle or JSON, in 16 bytes each: numbers, texts, lists and dicts. It is
/// filled by a parser and then read by names; nothing in it can be executed.
///
/// Shapes  A dict is a list of its keys and values in turn. A list or a dict may stand in the tree in several
///         places, even in itself, so a reader goes only as deep as it knows the form of what it reads.
///         Texts are views into the file and into `decoded`, which have to live as long.
/// Errors  dump_limit: more than kMostValues values.

#include <charconv>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace verify {

inline constexpr std::size_t kMostValues = std::size_t{16} << 20U;

enum class ValueKind : std::uint8_t { none, boolean, integer, real, text, list, dict };

struct Value {
  ValueKind kind = ValueKind::none;
  std::uint32_t size = 0;  // of a text
  union {
    std::int64_t integer = 0;  // also of a boolean
    double real;
    const char* text;
    std::uint64_t container;  // the index of a list or a dict
  };

  static Value of(std::int64_t integer) { return {.kind = ValueKind::integer, .integer = integer}; }
  static Value of_boolean(bool truth) { return {.kind = ValueKind::boolean, .integer = truth ? 1 : 0}; }
  static Value of_real(double real) { return {.kind = ValueKind::real, .real = real}; }
  static Value of_text(std::string_view text) {
    return {.kind = ValueKind::text, .size = static_cast<std::uint32_t>(text.size()), .text = text.data()};
  }
  bool is(ValueKind other) const { return kind == other; }
  /// Returns the text; "" of any other kind.
  std::string_view as_text() const { return is(ValueKind::text) ? std::string_view(text, size) : ""; }
};
static_assert(sizeof(Value) == 16);

class ValueTree {
 public:
  /// Returns a new list or dict without elements.
  Value container(ValueKind kind);
  void push(const Value& value);
  /// Moves what stands on the stack from a place on to the end of a list or a dict: of a dict keys and values
  /// in turn, where a last key without a value is left out. Any other value takes nothing.
  void take(Value to, std::size_t first);
  /// Returns the elements of a list, or the keys and values of a dict; none of any other kind.
  std::span<const Value> elements(const Value& of) const;
  /// Returns the value of a key in a dict; none where there is no such key.
  Value find(const Value& dict, std::string_view key) const;
  /// Keeps a text that does not stand in the file as it is.
  std::string_view keep(std::string text);
  /// Forgets everything and keeps the memory. `file` is named where a limit is passed.
  void begin(std::string file);

  /// What parsers work with. It is here so that its memory is kept from file to file.
  std::vector<Value> stack, memo;

 private:
  struct Block {
    std::size_t offset = 0, count = 0;
  };
  void append(const Value& to, std::span<const Value> values);

  std::string file_;
  std::vector<Value> pool_;
  std::vector<Block> blocks_;
  std::deque<std::string> decoded_;
};

/// Returns the number that a whole text is; nothing where it is none of this type.
template <typename Number = std::int64_t>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && end == last ? std::optional(number) : std::nullopt;
}

}  // namespace verify

#include "verify/run_arguments/shell_printf.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::size_t kMostTextOfPrintf = std::size_t{1} << 20U;
constexpr int kMostWidth = 200;

using Printed = std::optional<std::string>;

/// A part of a format: "%-8.3f" has the flags "-", the width 8 and the precision 3.
struct Conversion {
  std::string flags;
  int width = 0;
  std::optional<int> precision;
  char kind = '\0';
};

/// Takes digits from the begin of a format.
int take_digits(std::string_view& format) {
  int number = 0;
  for (; !format.empty() && std::isdigit(static_cast<unsigned char>(format[0])) != 0; format.remove_prefix(1))
    number = std::min(10 * number + (format[0] - '0'), kMostWidth + 1);
  return number;
}

/// Takes what stands behind a '%'; nothing where it is not followed.
std::optional<Conversion> take_conversion(std::string_view& format) {
  Conversion one;
  for (; !format.empty() && std::string_view("-+ 0").find(format[0]) != std::string_view::npos;
       format.remove_prefix(1))
    one.flags += format[0];
  one.width = take_digits(format);
  if (format.starts_with('.')) {
    format.remove_prefix(1);
    one.precision = take_digits(format);
  }
  const bool is_known =
      !format.empty() && std::string_view("sdiuxXofeEgG%").find(format[0]) != std::string_view::npos;
  if (!is_known || one.width > kMostWidth || one.precision.value_or(0) > kMostWidth || one.flags.size() > 4)
    return std::nullopt;
  one.kind = format[0];
  format.remove_prefix(1);
  return one;
}

template <typename Value>
std::string text_by_format(const Conversion& one, const char* length, Value value) {
  const std::string precision = one.precision ? "." + std::to_string(*one.precision) : "";
  const std::string width = one.width > 0 ? std::to_string(one.width) : "";
  const std::string format = "%" + one.flags + width + precision + length + one.kind;
  std::array<char, 1024> text{};
  const int size = std::snprintf(text.data(), text.size(), format.c_str(), value);
  return std::string(text.data(),
                     std::clamp<std::size_t>(static_cast<std::size_t>(size), 0, text.size() - 1));
}

/// Returns a text with blanks up to a width.
std::string text_of_width(const Conversion& one, std::string text) {
  if (one.precision) text.resize(std::min(text.size(), static_cast<std::size_t>(*one.precision)));
  const auto width = static_cast<std::size_t>(one.width);
  if (text.size() >= width) return text;
  const std::string blanks(width - text.size(), ' ');
  return one.flags.find('-') != std::string::npos ? text + blanks : blanks + text;
}

/// Returns a whole number; none for one to the base 8, and for a text.
Printed text_of_number(const Conversion& one, const std::string& word) {
  const bool is_octal = word.size() > 1 && word[word.find_first_not_of("+-") % word.size()] == '0';
  const auto number = whole_number(word.empty() ? "0" : word);
  if (!number || is_octal) return std::nullopt;
  const bool is_plain = one.flags.empty() && one.width == 0 && !one.precision;
  const bool is_signed = one.kind == 'd' || one.kind == 'i';
  if (is_plain && is_signed) return std::to_string(*number);
  if (is_signed) return text_by_format(one, "ll", static_cast<long long>(*number));
  return text_by_format(one, "ll", static_cast<unsigned long long>(*number));
}

/// Returns a decimal number, in the long numbers that a shell computes with.
Printed text_of_decimal(const Conversion& one, const std::string& word) {
  const bool is_plain =
      !word.empty() && word.size() <= 64 && word.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (!is_plain) return std::nullopt;
  char* end = nullptr;
  const long double number = std::strtold(word.c_str(), &end);
  if (*end != '\0') return std::nullopt;
  constexpr long double kLargest = 1e20L;  // of which 21 digits and a fraction fit
  const bool is_long = one.kind == 'f' && (number > kLargest || number < -kLargest);
  return is_long ? std::nullopt : Printed(text_by_format(one, "L", number));
}

Printed converted(const Conversion& one, const ShellField& word) {
  if (one.kind == 's') {
    const bool has_size = one.width > 0 || one.precision;
    return has_size && word.has_unknown() ? std::nullopt : Printed(text_of_width(one, word.text));
  }
  const bool is_decimal = std::string_view("feEgG").find(one.kind) != std::string_view::npos;
  return is_decimal ? text_of_decimal(one, word.text) : text_of_number(one, word.text);
}

/// Returns the sign behind a backslash; nothing for one that is not followed.
std::optional<char> sign_of(char letter) {
  static constexpr std::pair<char, char> kSigns[] = {
      {'n', '\n'}, {'t', '\t'}, {'\\', '\\'}, {'"', '"'}, {'\'', '\''}};
  const auto* const found = std::ranges::find(kSigns, letter, &std::pair<char, char>::first);
  return found == std::end(kSigns) ? std::nullopt : std::optional(found->second);
}

}  // namespace

Printed printed_text(const std::vector<ShellField>& words) {
  const bool has_dashes = words.size() > 1 && words[1].text == "--";
  const std::size_t first = has_dashes ? 2 : 1;
  if (words.size() <= first || (!has_dashes && words[first].text.starts_with('-'))) return std::nullopt;
  std::string text;
  std::size_t next = first + 1;
  do {
    const std::size_t before = next;
    std::string_view format = words[first].text;
    while (!format.empty()) {
      const char c = format[0];
      format.remove_prefix(1);
      if (c == '\\') {
        const auto sign = format.empty() ? std::nullopt : sign_of(format[0]);
        if (!sign) return std::nullopt;
        text += *sign;
        format.remove_prefix(1);
      } else if (c == '%') {
        const auto conversion = take_conversion(format);
        if (!conversion) return std::nullopt;
        if (conversion->kind == '%') {
          text += '%';
          continue;
        }
        const auto one = converted(*conversion, next < words.size() ? words[next] : ShellField{});
        if (!one) return std::nullopt;
        text += *one;
        ++next;
      } else {
        text += c;
      }
      if (text.size() > kMostTextOfPrintf) return std::nullopt;
    }
    if (next == before) break;
  } while (next < words.size());
  return text;
}

}  // namespace verify

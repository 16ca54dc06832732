#include "verify/recordings/json_values.h"

#include <charconv>
#include <vector>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

struct JsonEnds {};

bool is_json_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_of_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.';
}

void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0U | code >> 6U);
    text += static_cast<char>(0x80U | (code & 0x3fU));
  } else {
    text += static_cast<char>(0xe0U | code >> 12U);
    text += static_cast<char>(0x80U | (code >> 6U & 0x3fU));
    text += static_cast<char>(0x80U | (code & 0x3fU));
  }
}

class JsonReader {
 public:
  JsonReader(std::string_view bytes, const std::string& file, ValueTree& tree)
      : bytes_(bytes), file_(file), tree_(tree), stack_(tree.stack) {}

  ParsedFile read() {
    ParsedFile parsed;
    try {
      read_all();
    } catch (const JsonEnds&) {
      parsed.is_truncated = true;
      while (!open_.empty()) close();
    }
    if (!stack_.empty()) parsed.value = stack_.front();
    return parsed;
  }

 private:
  /// A list or an object whose end was not read yet.
  struct Open {
    Value container;
    std::size_t first;  // of its elements on the stack
  };

  /// Reads values, and the signs after them, until the outermost value is complete.
  void read_all() {
    do {
      if (!open_.empty() && open_.back().container.is(ValueKind::dict)) read_key();
      if (opens()) continue;
      while (!open_.empty() && ends_behind_value()) close();
    } while (!open_.empty());
    while (next_ < bytes_.size() && is_json_blank(bytes_[next_])) ++next_;
    if (next_ < bytes_.size()) refuse_text("after the end of the document");
  }

  /// Reads a scalar, an empty container or the beginning of a container. Returns whether an element of a new
  /// container follows.
  bool opens() {
    const char sign = sign_here();
    if (sign == '"') return tree_.push(Value::of_text(text())), false;
    if (sign != '{' && sign != '[') return tree_.push(word()), false;
    if (open_.size() == kMostJsonLevels) refuse_by("dump_limit/levels", file_, kMostJsonLevels, next_);
    ++next_;
    open_.push_back({tree_.container(sign == '{' ? ValueKind::dict : ValueKind::list), stack_.size()});
    if (sign_here() != (sign == '{' ? '}' : ']')) return true;
    ++next_;
    close();
    return false;
  }

  /// Reads what stands after an element: the end of its container, or a comma.
  bool ends_behind_value() {
    const char sign = sign_here();
    const bool ends = sign == (open_.back().container.is(ValueKind::dict) ? '}' : ']');
    if (!ends && sign != ',') refuse_text("where a comma or the end of a list or an object should be");
    ++next_;
    return ends;
  }

  /// Moves the elements of the innermost container from the stack into it, and pushes the container.
  void close() {
    const Open open = open_.back();
    open_.pop_back();
    tree_.take(open.container, open.first);
    tree_.push(open.container);
  }

  void read_key() {
    if (sign_here() != '"') refuse_text("where the name of a member should be");
    tree_.push(Value::of_text(text()));
    if (sign_here() != ':') refuse_text("where a colon should be");
    ++next_;
  }

  /// Returns the next sign that is not blank, without reading it.
  char sign_here() {
    while (next_ < bytes_.size() && is_json_blank(bytes_[next_])) ++next_;
    if (next_ == bytes_.size()) throw JsonEnds();
    return bytes_[next_];
  }

  /// Reads a text, whose first quote is the next sign.
  std::string_view text() {
    const std::size_t first = ++next_;
    for (; next_ < bytes_.size(); ++next_) {
      const char c = bytes_[next_];
      if (c == '"') return of_size(bytes_.substr(first, next_++ - first));
      if (c == '\\') return escaped_text(first);
      if (static_cast<unsigned char>(c) < 0x20)
        refuse_text("in a text, where a control character is escaped");
    }
    throw JsonEnds();
  }

  std::string_view of_size(std::string_view text) const {
    if (text.size() > kMostTextBytes) refuse_by("dump_limit/text", file_, text.size(), next_, kMostTextBytes);
    return text;
  }

  /// Reads the rest of a text that has an escape.
  std::string_view escaped_text(std::size_t first) {
    std::string decoded(bytes_.substr(first, next_ - first));
    while (next_ < bytes_.size()) {
      const char c = bytes_[next_++];
      if (c == '"') return tree_.keep(std::string(of_size(decoded)));
      if (c != '\\') {
        decoded += c;
        continue;
      }
      append_escape(decoded);
    }
    throw JsonEnds();
  }

  void append_escape(std::string& decoded) {
    static constexpr std::string_view kSigns = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (next_ == bytes_.size()) throw JsonEnds();
    const char sign = bytes_[next_++];
    if (const std::size_t at = kSigns.find(sign); at != std::string_view::npos) {
      decoded += kMeanings[at];
      return;
    }
    if (sign != 'u') refuse_text("in a text, where an escape should be");
    if (bytes_.size() - next_ < 4) throw JsonEnds();
    unsigned code = 0;
    const char* const end = bytes_.data() + next_ + 4;
    if (std::from_chars(bytes_.data() + next_, end, code, 16).ptr != end)
      refuse_text("in a text, where four hexadecimal digits should be");
    next_ += 4;
    append_utf8(decoded, code);  // one half of a pair is kept as it is: no text of a dump has a pair
  }

  /// Reads a number or a word.
  Value word() {
    const std::size_t first = next_;
    while (next_ < bytes_.size() && is_of_word(bytes_[next_])) ++next_;
    const std::string_view word = bytes_.substr(first, next_ - first);
    if (next_ == bytes_.size()) throw JsonEnds();  // its end may be missing
    if (word == "true" || word == "false") return Value::of_boolean(word == "true");
    if (word == "null" || word == "NaN" || word == "Infinity" || word == "-Infinity") return {};
    if (const auto integer = number_of(word)) return Value::of(*integer);
    if (const auto real = number_of<double>(word)) return Value::of_real(*real);
    next_ = first;
    refuse_text("where a value should be");
  }

  [[noreturn]] void refuse_text(const std::string& problem) const {
    refuse_by("dump_text/recording", file_, next_, problem);
  }

  std::string_view bytes_;
  const std::string& file_;
  ValueTree& tree_;
  std::size_t next_ = 0;
  std::vector<Value>& stack_;
  std::vector<Open> open_;
};

}  // namespace

ParsedFile parse_json_values(std::string_view bytes, const std::string& file, ValueTree& tree) {
  return JsonReader(bytes, file, tree).read();
}

}  // namespace verify

#include "verify/run_arguments/run_log.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/dialects.h"

namespace verify {

namespace {

constexpr std::size_t kMostLineBytes = std::size_t{64} << 10U;  // the rest of a longer line is dropped

/// Where a ruler stands in a line; npos where there is none.
std::size_t ruler_begin(std::string_view line, std::string_view title) {
  const std::size_t at = line.find(title);
  if (at == std::string_view::npos) return at;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] == '-') --begin;
  const std::size_t end = at + title.size();
  const bool has_dashes = at - begin >= 8 && line.substr(end, 8) == "--------";
  return has_dashes ? begin : std::string_view::npos;
}

constexpr std::string_view kBegin = " arguments ";
constexpr std::string_view kEnd = " end of arguments ";

/// The title stands between dashes and blanks; the dashes touch the blanks.
std::size_t begin_of_list(std::string_view line) { return ruler_begin(line, kBegin); }
bool ends_list(std::string_view line) { return ruler_begin(line, kEnd) != std::string_view::npos; }

bool is_of_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 ||
         std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// "  name .......... value", from the first letter of the name on. Names of 48 letters have no dots.
struct Entry {
  std::string_view name;
  std::string_view value;
  std::size_t width = 0;  // of the name and the dots, which is the same in all lines of a list
};

std::optional<Entry> entry_at(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_of_name(text[end])) ++end;
  if (end == 0 || end == text.size() || text[end] != ' ' ||
      std::isalpha(static_cast<unsigned char>(text[0])) == 0)
    return std::nullopt;
  std::size_t value = end + 1;
  while (value < text.size() && text[value] == '.') ++value;
  const bool has_dots = value > end + 1;
  if (value >= text.size() || text[value] != ' ') return std::nullopt;
  if (!has_dots && end < 47) return std::nullopt;
  return Entry{text.substr(0, end), text.substr(value + 1), value - 1};
}

/// Finds where the entry after a prefix of any length begins: the name that dots follow. Returns "" where
/// there is none.
std::string_view entry_of(std::string_view line) {
  std::size_t name = 0;  // every blank is looked at once, since a line may be blanks alone
  for (std::size_t at = line.find("  "); at != std::string_view::npos; at = line.find("  ", name)) {
    name = line.find_first_not_of(' ', at);
    if (name == std::string_view::npos) return "";
    if (entry_at(line.substr(name))) return line.substr(name);
  }
  return "";
}

/// Whether a text is a name, or a name and some of its dots, and so the first part of a line that is broken.
bool begins_entry(std::string_view text) {
  const std::size_t dots = std::min(text.find(' '), text.size());
  return dots > 0 && std::ranges::all_of(text.substr(0, dots), is_of_name) &&
         text.find_first_not_of('.', dots + 1) == std::string_view::npos;
}

/// Whether a text has some of the dots of a line, and may be the rest of one that is broken.
bool has_dots(std::string_view text) { return text.find("....") != std::string_view::npos; }

/// Whether a value has no end: nothing of it is there, or a list of Python's is not closed.
bool is_open(std::string_view value) {
  const std::size_t begin = value.find_first_not_of(' ');
  if (begin == std::string_view::npos) return true;
  const char last = value[value.find_last_not_of(' ')];
  return (value[begin] == '[' && last != ']') || (value[begin] == '(' && last != ')');
}

/// A list of arguments, line by line. A launcher may break a line in two, each with its prefix.
class List {
 public:
  List(std::size_t prefix, int line) : begun(line), prefix_(prefix) {}

  std::vector<RunArgument> arguments;
  std::vector<std::string> lost;  // parts of arguments: "'swiglu ....' in line 12"
  int begun = 0;
  int ended = 0;

  void take(std::string_view line, int number);
  void end(int number) {
    leave_part();
    ended = number;
  }

 private:
  std::string_view without_prefix(std::string_view line) const {
    return line.substr(std::min(prefix_, line.size()));
  }
  bool goes_on(std::string_view line);
  void leave_part();
  void lose(std::string_view part, int number);
  void add(std::string_view text, int number);

  std::size_t prefix_;
  std::size_t width_ = 48;   // of Megatron's lines, or of the entry before
  std::string part_;         // of an entry, from its name on
  std::string part_prefix_;  // of its line
  int part_line_ = 0;
  int parts_ = 0;
};

void List::take(std::string_view line, int number) {
  const std::string_view text = entry_of(line);
  if (!part_.empty() && text.empty() && goes_on(line)) return;
  const std::string_view rest = without_prefix(line);
  const bool begins = text.empty() && rest.find_first_not_of(' ') == 2 && begins_entry(rest.substr(2));
  if (text.empty() && !begins && !has_dots(rest)) return;  // another line than Megatron's
  leave_part();
  if (begins || (!text.empty() && is_open(entry_at(text)->value))) {
    part_ = begins ? rest.substr(2) : text;
    part_prefix_ = line.substr(0, prefix_);
    part_line_ = number;
    parts_ = 1;
  } else if (text.empty()) {
    lose(rest, number);
  } else {
    add(text, number);
  }
}

/// Joins a line to the part before it, if an entry, or a larger part of one, comes of it.
bool List::goes_on(std::string_view line) {
  constexpr int kMostParts = 64;
  const bool has_value = entry_at(part_).has_value();
  if (++parts_ > kMostParts || (has_value && !line.starts_with(part_prefix_))) return false;
  std::string joined = part_;
  joined += without_prefix(line);
  const std::optional<Entry> entry = entry_at(joined);
  const bool are_dots_joined = part_.ends_with('.') && joined[part_.size()] == '.';
  const bool is_whole = entry && (has_value || are_dots_joined || entry->width == width_);
  const bool is_joined = is_whole || (!entry && begins_entry(joined));
  if (!is_joined || joined.size() > kMostLineBytes) return false;
  part_ = std::move(joined);
  if (entry && !is_open(entry->value)) leave_part();
  return true;
}

/// Ends the part of an entry that has no further lines. A name with all of its dots has an empty value.
void List::leave_part() {
  const std::string part = std::exchange(part_, "");
  if (entry_at(part)) {
    add(part, part_line_);
  } else if (has_dots(part) && part.size() != width_ + 1) {
    lose(part, part_line_);
  }
}

void List::lose(std::string_view part, int number) {
  constexpr std::size_t kMostLetters = 40;
  lost.push_back(fmt::format("'{}' in line {}", sim::printable_text(part.substr(0, kMostLetters)), number));
}

void List::add(std::string_view text, int number) {
  const Entry entry = *entry_at(text);
  if (arguments.size() == kMostRunArguments)
    refuse_by("run_file_size/list", fmt::format("line {}", number), kMostRunArguments);
  if (entry.name.size() < entry.width) width_ = entry.width;
  arguments.push_back({run_argument_name(entry.name), python_values(entry.value), number});
}

/// The size in "> padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)".
std::optional<std::int64_t> padded_vocabulary(std::string_view line) {
  constexpr std::string_view kSize = "(new size: ";
  if (line.find("> padded vocab (size: ") == std::string_view::npos) return std::nullopt;
  const std::size_t at = line.find(kSize);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view size = line.substr(at + kSize.size());
  return whole_number(size.substr(0, size.find(')')));
}

/// Returns what is said of the list that is read.
std::vector<std::string> notes_of(const List& list, int lists) {
  std::vector<std::string> notes;
  if (lists > 1) {
    notes.push_back(fmt::format("the log has {} lists of arguments; the last one, lines {} to {}, is read",
                                lists, list.begun, list.ended));
  }
  constexpr std::size_t kMostNamed = 6;
  if (!list.lost.empty())
    notes.push_back("parts of lines, whose other parts are not found, are not read: " +
                    first_names(list.lost, kMostNamed));
  return notes;
}

void take_world(RunArguments& run) {
  for (const RunArgument& argument : run.given) {
    if (argument.name != "world-size" || argument.values.size() != 1) continue;
    run.world_size = whole_number(argument.values.front());
    run.world_size_source = fmt::format("world_size of the log, line {}", argument.line);
  }
}

}  // namespace

bool next_line(std::istream& stream, std::string& line, std::size_t most) {
  line.clear();
  std::streambuf* buffer = stream.rdbuf();
  int c = buffer->sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer->sbumpc()) {
    if (line.size() < most) line += static_cast<char>(c);
  }
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

bool is_ruler_of_arguments(std::string_view line) {
  return begin_of_list(line) != std::string_view::npos || ends_list(line);
}

RunArguments read_run_log(std::istream& log) {
  std::optional<List> complete, open;
  int lists = 0, number = 0, unbegun = 0;
  for (std::string line; next_line(log, line, kMostLineBytes);) {
    ++number;
    if (ends_list(line)) {
      if (!open) {
        unbegun = number;
        continue;
      }
      open->end(number);
      complete = std::exchange(open, std::nullopt);
      ++lists;
    } else if (const std::size_t begin = begin_of_list(line); begin != std::string_view::npos) {
      open.emplace(begin, number);
    } else if (open) {
      open->take(line, number);
    } else if (const auto size = padded_vocabulary(line); size && complete) {
      complete->arguments.push_back({"padded-vocab-size", {fmt::format("{}", *size)}, number});
    }
  }
  if (!complete && open) refuse_by("run_log_cut/begun", fmt::format("line {}", open->begun));
  if (!complete && unbegun > 0) refuse_by("run_log_cut/ended", fmt::format("line {}", unbegun));
  if (!complete || complete->arguments.empty()) refuse_by("run_without_arguments/log", "--from");
  RunArguments run{.kind = RunFileKind::log, .given = std::move(complete->arguments)};
  run.notes = notes_of(*complete, lists);
  if (open)
    run.notes.push_back(
        fmt::format("another list begins in line {} and does not end; it is not read", open->begun));
  take_world(run);
  return run;
}

}  // namespace verify

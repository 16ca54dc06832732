#include "verify/run_arguments/run_log.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/python_value.h"

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

struct Entry {
  std::string_view name;
  std::string_view value;
};

/// "  name .......... value", from the first letter of the name on. Names of 48 letters have no dots.
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
  return Entry{text.substr(0, end), text.substr(value + 1)};
}

/// Finds the entry behind a prefix of any length: the name that dots follow.
std::optional<Entry> entry_of(std::string_view line) {
  std::size_t name = 0;  // every blank is looked at once, since a line may be blanks alone
  for (std::size_t at = line.find("  "); at != std::string_view::npos; at = line.find("  ", name)) {
    name = line.find_first_not_of(' ', at);
    if (name == std::string_view::npos) return std::nullopt;
    if (const auto entry = entry_at(line.substr(name))) return entry;
  }
  return std::nullopt;
}

bool next_line(std::istream& log, std::string& line) {
  line.clear();
  std::streambuf* buffer = log.rdbuf();
  int c = buffer->sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer->sbumpc()) {
    if (line.size() < kMostLineBytes) line += static_cast<char>(c);
  }
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

struct List {
  std::vector<RunArgument> arguments;
  int begun = 0;
  int ended = 0;
};

[[noreturn]] void refuse_cut(int line, const char* problem) {
  sim::refuse({.code = "run_log_cut",
               .option = fmt::format("line {}", line),
               .numbers = problem,
               .rule = "the list of arguments of a log begins and ends with a ruler",
               .hint = "the whole list, from '--- arguments ---' to '--- end of arguments ---'"});
}

void take_world(RunArguments& run) {
  for (const RunArgument& argument : run.given) {
    if (argument.name != "world-size" || argument.values.size() != 1) continue;
    run.world_size = whole_number(argument.values.front());
    run.world_size_source = fmt::format("world_size of the log, line {}", argument.line);
  }
}

}  // namespace

bool is_ruler_of_arguments(std::string_view line) {
  return begin_of_list(line) != std::string_view::npos || ends_list(line);
}

RunArguments read_run_log(std::istream& log) {
  std::optional<List> complete, open;
  int lists = 0, number = 0, unbegun = 0;
  for (std::string line; next_line(log, line);) {
    ++number;
    if (ends_list(line)) {
      if (!open) {
        unbegun = number;
        continue;
      }
      open->ended = number;
      complete = std::exchange(open, std::nullopt);
      ++lists;
    } else if (begin_of_list(line) != std::string_view::npos) {
      open = List{.arguments = {}, .begun = number, .ended = 0};
    } else if (open) {
      const std::optional<Entry> entry = entry_of(line);
      if (!entry) continue;
      if (open->arguments.size() == kMostRunArguments) {
        sim::refuse({.code = "run_file_size",
                     .option = fmt::format("line {}", number),
                     .numbers = fmt::format("more than {} arguments in a list", kMostRunArguments),
                     .rule = "Megatron has several hundred arguments",
                     .hint = "the list of one rank alone"});
      }
      open->arguments.push_back({run_argument_name(entry->name), python_values(entry->value), number});
    }
  }
  if (!complete && open) refuse_cut(open->begun, "the list begins here and does not end");
  if (!complete && unbegun > 0) refuse_cut(unbegun, "the list ends here and does not begin");
  if (!complete || complete->arguments.empty()) {
    sim::refuse({.code = "run_without_arguments",
                 .option = "--from",
                 .numbers = "a log without a list of arguments",
                 .rule = "Megatron prints its arguments when a run starts, between two rulers",
                 .hint = "the log of rank 0 from its beginning"});
  }
  RunArguments run{.kind = RunFileKind::log, .given = std::move(complete->arguments)};
  if (lists > 1) {
    run.notes.push_back(
        fmt::format("the log has {} lists of arguments; the last one, lines {} to {}, is read", lists,
                    complete->begun, complete->ended));
  }
  if (open)
    run.notes.push_back(
        fmt::format("another list begins in line {} and does not end; it is not read", open->begun));
  take_world(run);
  return run;
}

}  // namespace verify

#include "verify/run_arguments/run_file.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <string_view>

#include "sim/base/printable_text.h"
#include "verify/output/input_file.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/run_arguments/run_document.h"
#include "verify/run_arguments/run_log.h"
#include "verify/run_arguments/run_script.h"
#include "verify/run_arguments/run_yaml.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

/// Refuses bytes that are in no text, and says in which line they stand.
void require_text(std::string_view text) {
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = sim::character_bytes(text.substr(at));
    const bool is_control =
        byte < ' ' && std::string_view("\t\n\r\f\v\x1b").find(text[at]) == std::string_view::npos;
    if (bytes == 0 || is_control) refuse_by("run_file_text", fmt::format("line {}", line), byte);
    line += text[at] == '\n' ? 1 : 0;
    at += bytes;
  }
}

/// Returns the first line that is neither blank nor a comment, nor begins a document of YAML.
std::string first_line_of(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string shown = without_blanks(line);
    if (!shown.empty() && shown[0] != '#' && !line.starts_with("---")) return shown;
  }
  return "";
}

/// Whether a line begins with this form.
bool begins_with(const std::string& line, const char* form) {
  constexpr std::size_t kMostLetters = 1000;
  return std::regex_search(line.substr(0, kMostLetters), std::regex(form),
                           std::regex_constants::match_continuous);
}

bool is_yaml(const std::string& text) {
  const bool has_arguments =
      text.starts_with("MODEL_ARGS:") || text.find("\nMODEL_ARGS:") != std::string::npos;
  return has_arguments || begins_with(first_line_of(text), R"(\{|[\w"'-]+:( |$))");
}

/// Whether the text is a program: its first line imports a module, or is NAME = [ or NAME = " ".join(, as in
/// Python, where a shell takes no blanks.
bool is_python(const std::string& text) {
  const bool names_python =
      text.starts_with("#!") && text.substr(0, text.find('\n')).find("python") != std::string::npos;
  constexpr const char* kForm = R"(import |from .* import |"""|\w+ = ([\[{(]|.*\.join\())";
  return names_python || begins_with(first_line_of(text), kForm);
}

/// Whether the text begins with a section of TOML or of INI: "[model]".
bool begins_with_section(const std::string& text) {
  return begins_with(first_line_of(text), R"(\[[\w.-]+\]$)");
}

/// Refuses a text of a kind that has no reader, and that a shell would read as something else.
void require_known_format(const std::string& text) {
  if (is_python(text)) refuse_by("run_file_format/python", "--from");
  if (begins_with_section(text)) refuse_by("run_file_format/sections", "--from", first_line_of(text));
}

/// Whether a line of the file is a ruler of a list of arguments. Reads the file to its end.
bool holds_a_ruler(std::istream& file) {
  constexpr std::size_t kMostLine = 4096;  // a ruler stands at the beginning of a line, after a prefix
  for (std::string line; next_line(file, line, kMostLine);)
    if (is_ruler_of_arguments(line)) return true;
  return false;
}

/// Whether a text has a name, not as a part of a longer one.
bool names(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !is_of_shell_name(text[at - 1]);
    if (begins && (end == text.size() || !is_of_shell_name(text[end]))) return true;
  }
  return false;
}

/// Refuses a value for a variable that the file does not have: it would change nothing. An argument of the
/// script ($1) may have its number by `shift`, and stands for itself.
void require_variables(std::string_view text, const RunArguments& run, const RunVariables& set) {
  for (const auto& [name, value] : set) {
    const bool is_number = name.find_first_not_of("0123456789") == std::string::npos;
    const bool is_of_other_file =
        std::ranges::any_of(run.other_texts, [&](const std::string& other) { return names(other, name); });
    if (is_number || is_of_other_file || names(text, name)) continue;
    refuse_by("bad_set/name", fmt::format("--set {}", sim::printable_text(name)));
  }
}

/// Returns the rest of a stream, or one byte more than `most` where it is longer.
std::string text_of_stream(std::istream& stream, std::size_t most) {
  std::string text;
  std::string part(std::size_t{1} << 16U, '\0');
  while (stream && text.size() <= most) {
    stream.read(part.data(), static_cast<std::streamsize>(std::min(part.size(), most + 1 - text.size())));
    text.append(part, 0, static_cast<std::size_t>(stream.gcount()));
  }
  return text;
}

void require_bytes(std::size_t bytes, std::size_t most) {
  if (bytes <= most) return;
  refuse_by("run_file_size/bytes", "--from", most);
}

/// Refuses values for variables of a text that has none.
void require_nothing_set(const RunVariables& set, const char* what) {
  if (set.empty()) return;
  refuse_by("bad_set/variables", fmt::format("--set {}", sim::printable_text(set.begin()->first)), what);
}

}  // namespace

RunArguments read_run_text(const std::string& text, const RunVariables& set, const std::string& path) {
  require_bytes(text.size(), kMostScriptBytes);
  require_text(text);
  if (is_run_document(text)) {
    require_nothing_set(set, "the document of a run");
    return read_run_document(text);
  }
  require_known_format(text);
  RunArguments run = is_yaml(text) ? read_run_yaml(text, set) : read_run_script(text, set, path);
  require_variables(text, run, set);
  if (run.script.starts_with("megatron ")) {  // of ms-swift
    for (RunArgument& argument : run.given) argument.name = name_of_swift(argument.name);
    for (Unresolved& unknown : run.unresolved) unknown.argument = name_of_swift(unknown.argument);
  }
  return run;
}

namespace {

/// Reads a run from a stream that can go back to its beginning.
RunArguments read_run(std::istream& stream, const RunVariables& set, const std::string& path) {
  const bool is_log = holds_a_ruler(stream);
  stream.clear();
  stream.seekg(0);
  if (is_log) {
    require_nothing_set(set, "a log");
    return read_run_log(stream);
  }
  std::string text = text_of_stream(stream, kMostScriptBytes);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return read_run_text(text, set, path);
}

RunArguments read_standard_input(const RunVariables& set) {
  std::string text = text_of_stream(std::cin, kMostPipedBytes);
  if (text.size() > kMostPipedBytes) refuse_by("run_file_size/stdin", "--from -", kMostPipedBytes >> 20U);
  std::istringstream stream(std::move(text));
  return read_run(stream, set, "");
}

}  // namespace

RunArguments read_run_file(const std::string& path, const RunVariables& set) {
  if (path == kStandardInput) return read_standard_input(set);
  const std::string model = path + "/config.json";  // of a folder with a model of Hugging Face
  const std::string& name = what_is_no_plain_file(model).empty() ? model : path;
  if (const std::string problem = what_is_no_plain_file(name); !problem.empty())
    refuse_by("run_file_missing", "--from " + sim::printable_text(path), problem);
  std::ifstream file(name, std::ios::binary);
  return read_run(file, set, name);
}

}  // namespace verify

#include "verify/megatron_rules/run_values.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "verify/run_arguments/argument_table.h"

namespace verify {

namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  for (const std::string_view other : words)
    if (word == other) return true;
  return false;
}
bool is_false(std::string_view word) { return is_one_of(word, {"false", "False"}); }
bool is_true(std::string_view word) { return is_one_of(word, {"true", "True"}); }
bool is_none(std::string_view word) { return is_one_of(word, {"None", "null", "~"}); }

/// Whether 0 says that there are no such ranks: an encoder that is in no group of its own.
bool is_off_with_zero(std::string_view name) {
  return is_one_of(name, {"encoder-tensor-model-parallel-size", "encoder-pipeline-model-parallel-size"});
}

/// Python reads 10_000 as 10000. Other words stay as they are.
std::string without_separators(std::string word) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const bool is_number = std::ranges::all_of(word, [&](char c) { return is_digit(c) || c == '_'; }) &&
                         !word.empty() && is_digit(word.front()) && is_digit(word.back()) &&
                         word.find("__") == std::string::npos;
  if (is_number) std::erase(word, '_');
  return word;
}

/// What an argument says: under its name for Megatron's parser, its value, or that it is not given.
struct Said {
  std::string name;
  std::vector<std::string> words;
  bool is_absent = false;
};

/// Whether the words of an argument say that it is not given.
bool says_absent(const std::string& name, const std::vector<std::string>& words, bool is_of_log) {
  if (words.size() != 1) return is_of_log && words.empty();  // an empty list
  const std::string& word = words.front();
  return is_none(word) || is_false(word) || (word == "0" && is_off_with_zero(name));
}

Said said_by(const RunArgument& argument, bool is_of_log) {
  Said said{.name = argument.name, .words = argument.values};
  for (std::string& word : said.words) word = without_separators(std::move(word));
  said.is_absent = says_absent(said.name, said.words, is_of_log);
  if (said.words.size() != 1) return said;
  const bool is_on = is_true(said.words.front());
  const bool is_switch = is_on || is_false(said.words.front());
  const LogName* log_name = argument.is_option ? nullptr : find_log_name(said.name);
  if (log_name != nullptr && (is_switch || !log_name->is_negated)) {
    said.name = log_name->flag;
    if (log_name->is_negated) said.is_absent = is_on;
  }
  if (is_switch) said.words.clear();
  return said;
}

}  // namespace

RunValues::RunValues(const RunArguments& run) {
  for (const RunArgument& argument : run.given) {
    Said said = said_by(argument, run.kind == RunFileKind::log && !argument.is_option);
    if (argument.is_option) {
      values_.erase(said.name);
      std::erase_if(repeated_, [&](const Repeated& repeated) { return repeated.name == said.name; });
    }
    if (said.is_absent) continue;
    Value value{std::move(said.words), argument.line};
    const auto before = values_.find(said.name);
    if (before != values_.end() && before->second.words != value.words)
      repeated_.push_back({said.name, before->second, value});
    values_[said.name] = std::move(value);
  }
  // Megatron gives both sizes of FFNs one value before it prints them, also where there are no experts.
  if (run.kind == RunFileKind::log && !has("num-experts")) values_.erase("moe-ffn-hidden-size");
}

bool RunValues::flag(std::string_view name) const { return has(name); }

std::optional<std::int64_t> RunValues::number(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.words.size() != 1) return std::nullopt;
  return whole_number(found->second.words[0]);
}

std::string RunValues::text(std::string_view name, const std::string& fallback) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fallback;
  std::string text;
  for (const std::string& word : found->second.words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> RunValues::words(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second.words;
}

}  // namespace verify

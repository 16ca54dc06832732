#include "verify/megatron_rules/run_values.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>

#include "verify/run_arguments/argument_table.h"

namespace verify {

namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}
bool is_false(std::string_view word) { return is_one_of(word, {"false", "False"}); }
bool is_true(std::string_view word) { return is_one_of(word, {"true", "True"}); }

/// Whether 0 says that there are no such ranks: an encoder that is in no group of its own.
bool is_off_with_zero(std::string_view name) {
  return is_one_of(name, {"encoder-tensor-model-parallel-size", "encoder-pipeline-model-parallel-size"});
}

/// Whether the words of an argument say that it is not given.
bool says_absent(const std::string& name, const std::vector<std::string>& words, bool is_log) {
  if (words.size() != 1) return is_log && words.empty();  // an empty list
  const std::string& word = words.front();
  if (is_one_of(word, {"None", "null", "~"}) || is_false(word) || (word == "0" && is_off_with_zero(name)))
    return true;
  const ArgumentRow* row = find_argument(name);
  return is_log && row != nullptr && !word.empty() && word == row->in_log_if_absent;
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

/// An argument as the parser holds it, or that it is not given.
struct Held {
  std::string name;
  RunValues::Value value;
  bool is_absent = false;
};

Held held(const RunArgument& argument, bool is_log) {
  Held held{argument.name, {argument.values, argument.line}};
  std::vector<std::string>& words = held.value.words;
  for (std::string& word : words) word = without_separators(std::move(word));
  held.is_absent = says_absent(held.name, words, is_log && !argument.is_option);
  const bool is_switch = words.size() == 1 && (is_true(words[0]) || is_false(words[0]));
  const LogName* log_name = argument.is_option ? nullptr : find_log_name(held.name);
  if (log_name != nullptr && words.size() == 1 && (is_switch || !log_name->is_negated)) {
    held.name = log_name->argument;
    if (log_name->is_negated) held.is_absent = is_true(words[0]);
  }
  if (is_switch) words.clear();
  return held;
}

}  // namespace

RunValues::RunValues(const RunArguments& run) {
  const bool is_log = run.kind == RunFileKind::log;
  for (const RunArgument& argument : run.given) {
    Held one = held(argument, is_log);
    if (argument.is_option) {
      values_.erase(one.name);
      std::erase_if(repeated_, [&](const Repeated& repeated) { return repeated.name == one.name; });
    }
    if (one.is_absent) continue;
    const auto before = values_.find(one.name);
    if (before != values_.end() && before->second.words != one.value.words)
      repeated_.push_back({one.name, before->second, one.value});
    values_[one.name] = std::move(one.value);
  }
  // Megatron gives both sizes of FFNs one value before it prints them, also where there are no experts.
  if (is_log && !has("num-experts")) values_.erase("moe-ffn-hidden-size");
}

std::optional<std::int64_t> RunValues::number(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.words.size() != 1) return std::nullopt;
  return whole_number(found->second.words[0]);
}

std::string RunValues::text(std::string_view name, const std::string& fallback) const {
  return has(name) ? fmt::format("{}", fmt::join(words(name), " ")) : fallback;
}

std::vector<std::string> RunValues::words(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second.words;
}

}  // namespace verify

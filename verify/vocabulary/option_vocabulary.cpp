#include "verify/vocabulary/option_vocabulary.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace verify {

namespace {

struct ReaderName {
  Reader reader;
  std::string_view text;
};
constexpr ReaderName kReaderNames[] = {
    {Reader::groups, "groups"},     {Reader::layers, "layers"},       {Reader::schedule, "schedule"},
    {Reader::shards, "shards"},     {Reader::memory, "memory"},       {Reader::replay, "replay"},
    {Reader::check, "check"},       {Reader::inspect, "inspect"},     {Reader::list, "list"},
    {Reader::mpi, "--backend mpi"}, {Reader::nccl, "--backend nccl"}, {Reader::cuda, "--device cuda"},
    {Reader::spread, "--spread"}};

}  // namespace

OptionInfo OptionInfo::as_read_by(Reader command) const {
  OptionInfo option = *this;
  for (const OptionMeaning& meaning : meanings) {
    if (!overlap(meaning.readers, command)) continue;
    option.fallback = meaning.fallback;
    option.help = meaning.help;
    option.choices = meaning.choices;
  }
  return option;
}

std::string value_text(const OptionInfo& option) {
  if (!option.value.empty()) return option.value;
  switch (option.kind) {
    case OptionKind::flag:
      return "";
    case OptionKind::choice:
      return fmt::format("{}", fmt::join(option.choices, "|"));
    case OptionKind::size:
    case OptionKind::count:
    case OptionKind::number:
      return "N";
    case OptionKind::numbers:
      return "N,...";
    case OptionKind::pair:
    case OptionKind::text:
    case OptionKind::texts:
      return "TEXT";
    case OptionKind::words:
      return "NAME,...";
  }
  return "";
}

std::vector<std::string> all_choices(const OptionInfo& option) {
  std::vector<std::string> all = option.choices;
  for (const OptionMeaning& meaning : option.meanings)
    all.insert(all.end(), meaning.choices.begin(), meaning.choices.end());
  return all;
}

std::vector<OptionInfo> variants_of(const OptionInfo& option) {
  std::vector<OptionInfo> variants = {option};
  for (const OptionMeaning& meaning : option.meanings) {
    variants.push_back(option.as_read_by(meaning.readers));
    variants.back().readers = option.readers & meaning.readers;
    variants.front().readers = variants.front().readers & ~meaning.readers;
  }
  return variants;
}

std::string text_of_readers(const OptionInfo& option) {
  std::vector<std::string_view> names;
  for (const ReaderName& name : kReaderNames) {
    if (overlap(option.readers, name.reader)) names.push_back(name.text);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string help_call(std::string_view words) {
  const std::string_view first = words.substr(0, words.find(' '));
  const bool is_command =
      !first.starts_with('-') && std::any_of(std::begin(kReaderNames), std::end(kReaderNames),
                                             [&](const auto& n) { return n.text == first; });
  return is_command ? fmt::format("shardproof {} --help", first) : "shardproof --help";
}

const OptionInfo* find_option(const std::string& name) {
  const auto& all = option_vocabulary();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OptionInfo& o) { return name == o.name; });
  return found == all.end() ? nullptr : &*found;
}

const OptionInfo& option_named(const std::string& name) {
  const OptionInfo* option = find_option(name);
  CHECK(option != nullptr);
  return *option;
}

void refuse_without_effect(const std::string& option, const std::string& command) {
  sim::refuse({.code = "option_without_effect",
               .option = "--" + option,
               .numbers = fmt::format("it is given to '{}'", command),
               .rule = "an option that a command would not read is refused",
               .hint = help_call(command)});
}

}  // namespace verify

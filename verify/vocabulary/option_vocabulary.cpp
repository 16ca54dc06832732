#include "verify/vocabulary/option_vocabulary.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kOptions =
#include "options.tsv.inc"
    ;

struct ReaderName {
  std::string_view word;  // in the table
  Reader reader;
  std::string_view text;  // as users know it; "" where they do not
};
constexpr ReaderName kReaderNames[] = {
    {"groups", Reader::groups, "groups"},
    {"layers", Reader::layers, "layers"},
    {"schedule", Reader::schedule, "schedule"},
    {"shards", Reader::shards, "shards"},
    {"memory", Reader::memory, "memory"},
    {"replay", Reader::replay, "replay"},
    {"check", Reader::check, "check"},
    {"inspect", Reader::inspect, "inspect"},
    {"run", Reader::run, "run"},
    {"list", Reader::list, "list"},
    {"mpi", Reader::mpi, "--backend mpi"},
    {"nccl", Reader::nccl, "--backend nccl"},
    {"cuda", Reader::cuda, "--device cuda"},
    {"spread", Reader::spread, "--spread"},
    {"check_of_project", Reader::check_of_project, ""},
    {"replay_of_project", Reader::replay_of_project, ""},
    {"exam", Reader::exam, ""},
    {"exam_of_project", Reader::exam_of_project, ""},
    {"placements", Reader::layers | Reader::replay | Reader::memory, ""},
    {"schedules", Reader::schedule | Reader::replay | Reader::memory, ""},
    {"layouts",
     Reader::groups | Reader::layers | Reader::schedule | Reader::replay | Reader::inspect | Reader::memory,
     ""},
    {"counted", Reader::replay | Reader::memory, ""},
    {"shapes", Reader::shards | Reader::replay | Reader::memory, ""},  // of the options of a model's shape
    {"started", Reader::mpi | Reader::nccl | Reader::spread, ""},      // of those that say who a process is
    {"simulated", Reader::replay | Reader::run, ""},  // of those that say how virtual ranks run
    {"replays", Reader::replay | Reader::replay_of_project, ""},
    {"checks", Reader::check | Reader::check_of_project, ""},
    {"exams", Reader::exam | Reader::exam_of_project, ""},
    {"program", Reader{}, ""},  // read before there is a command
    {"everybody", kEverybody, ""}};

Reader readers_of(const std::string& cell) {
  Reader readers = Reader{};
  for (const std::string& word : words_of_cell(cell)) {
    const auto* found = std::ranges::find(kReaderNames, word, &ReaderName::word);
    CHECK(found != std::end(kReaderNames));
    readers = readers | found->reader;
  }
  return readers;
}

OptionKind kind_of(const std::string& word) {
  // In the order of OptionKind.
  static constexpr std::string_view kKinds[] = {"size",   "count", "number", "numbers", "flag",
                                                "choice", "text",  "texts",  "pair",    "words"};
  const auto* found = std::ranges::find(kKinds, word);
  CHECK(found != std::end(kKinds));
  return static_cast<OptionKind>(found - std::begin(kKinds));
}

void take_mark(const std::string& mark, OptionInfo& option) {
  constexpr std::string_view kBeside = "beside-";
  CHECK(mark == "virtual" || mark == "replay-only" || mark.starts_with(kBeside));
  if (mark == "virtual") option.needs_virtual_ranks = true;
  if (mark == "replay-only") option.backend_commands = Reader::replay;
  if (mark.starts_with(kBeside)) option.backend_beside = mark.substr(kBeside.size());
}

std::string text_of_cell(const std::string& cell) { return cell == "-" ? "" : cell; }

OptionInfo option_of(const TextRow& row) {
  OptionInfo option{.name = row.at(0),
                    .kind = kind_of(row.at(1)),
                    .section = row.at(2),
                    .readers = readers_of(row.at(3)),
                    .fallback = text_of_cell(row.at(4)),
                    .help = row.at(8),
                    .value = text_of_cell(row.at(6)),
                    .choices = words_of_cell(row.at(5))};
  CHECK(std::ranges::count(option_sections(), option.section, &OptionSection::name) == 1);
  for (const std::string& mark : words_of_cell(row.at(7))) take_mark(mark, option);
  return option;
}

/// Adds what the option before a row means to some of its readers.
void add_meaning(const TextRow& row, std::vector<OptionInfo>& options) {
  CHECK(!options.empty() && options.back().name == row.at(0));
  options.back().meanings.push_back({.readers = readers_of(row.at(3)),
                                     .fallback = text_of_cell(row.at(4)),
                                     .help = row.at(8),
                                     .choices = words_of_cell(row.at(5))});
}

}  // namespace

const std::vector<OptionSection>& option_sections() {
  static const std::vector<OptionSection> sections = {
      {kLayoutSection, "Layout",
       "These set the parallel sizes, the order of the ranks and the size of a node."},
      {kRunSection, "A run of your own",
       "These read the options from what you launch: a log, a YAML file, a script or a command line."},
      {kLayersSection, "Layers", "These say how many layers there are and which stage holds each of them."},
      {"model", "Model", "These set the shape of the model and its batch."},
      {kExpertsSection, "Experts", "These set the experts, their router and their dispatcher."},
      {"ranks", "Virtual ranks", "These say how virtual ranks run and in which order reductions add."},
      {"pipeline", "Pipeline schedule", "These set the microbatches of a step and what its steps cost."},
      {kCasesSection, "Cases", "These choose the cases and properties to prove and what is drawn."},
      {kTrainingSection, "Training", "These set what is trained, for how long, and what is recomputed."},
      {kMemorySection, "Memory", "These say what a rank keeps, and what the GPU has."},
      {"shards", "Shards", "These describe a gradient buffer and the ranks that share it."},
      {"expectations", "Expectations", "These state the result that a scenario must have."},
      {kBackendSection, "Backends", "These choose other engines than virtual ranks on the CPU."},
      {kProcessSection, "This process", "These say where processes meet when no launcher does."},
      {kOutputSection, "Output", "These say what is shown and which files are written."},
  };
  return sections;
}

const std::vector<OptionInfo>& option_vocabulary() {
  static const std::vector<OptionInfo> options = [] {
    std::vector<OptionInfo> all;
    for (const TextRow& row : rows_of_table(kOptions))
      row.at(1) == "for" ? add_meaning(row, all) : all.push_back(option_of(row));
    return all;
  }();
  return options;
}

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
    if (!name.text.empty() && overlap(option.readers, name.reader)) names.push_back(name.text);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string help_call(std::string_view words) {
  const std::string_view first = words.substr(0, words.find(' '));
  const bool is_command = !first.empty() && !first.starts_with('-') &&
                          std::ranges::count(kReaderNames, first, &ReaderName::text) > 0;
  return is_command ? fmt::format("shardproof {} --help", first) : "shardproof --help";
}

const OptionInfo* find_option(const std::string& name) {
  const auto& all = option_vocabulary();
  const auto found = std::ranges::find(all, name, &OptionInfo::name);
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

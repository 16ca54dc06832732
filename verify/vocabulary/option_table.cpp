#include "verify/vocabulary/option_table.h"

#include <algorithm>
#include <map>
#include <string>

#include "sim/base/check.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kOptions =
#include "options.tsv.inc"
    ;

/// Returns what a word of the table stands for.
template <typename Value>
Value known(const std::map<std::string_view, Value>& words, const std::string& word) {
  const auto found = words.find(word);
  CHECK(found != words.end());
  return found->second;
}

OptionKind kind_of(const std::string& word) {
  using enum OptionKind;
  static const std::map<std::string_view, OptionKind> kinds = {
      {"size", size},     {"count", count}, {"number", number}, {"numbers", numbers}, {"flag", flag},
      {"choice", choice}, {"text", text},   {"texts", texts},   {"pair", pair},       {"words", words}};
  return known(kinds, word);
}

Reader readers_of(const std::string& cell) {
  using enum Reader;
  static const std::map<std::string_view, Reader> names = {
      {"groups", groups},
      {"layers", layers},
      {"schedule", schedule},
      {"shards", shards},
      {"replay", replay},
      {"check", check},
      {"check_of_project", check_of_project},
      {"replay_of_project", replay_of_project},
      {"mpi", mpi},
      {"nccl", nccl},
      {"cuda", cuda},
      {"spread", spread},
      {"inspect", inspect},
      {"memory", memory},
      {"exam", exam},
      {"exam_of_project", exam_of_project},
      {"layouts", groups | layers | schedule | replay | inspect | memory},
      {"placements", layers | replay | memory},
      {"schedules", schedule | replay | memory},
      {"counted", replay | memory},
      {"shapes", shards | replay | memory},  // of the options of a model's shape
      {"started", mpi | nccl | spread},      // of those that say who a process is
      {"replays", replay | replay_of_project},
      {"checks", check | check_of_project},
      {"exams", exam | exam_of_project},
      {"program", Reader{}},  // read before there is a command
      {"everybody", kEverybody}};
  Reader readers = Reader{};
  for (const std::string& word : words_of_cell(cell)) readers = readers | known(names, word);
  return readers;
}

void take_mark(const std::string& mark, OptionInfo& option) {
  constexpr std::string_view kBeside = "beside-";
  CHECK(mark == "virtual" || mark == "replay-only" || mark.starts_with(kBeside));
  if (mark == "virtual") option.needs_virtual_ranks = true;
  if (mark == "replay-only") option.backend_commands = Reader::replay;
  if (mark.starts_with(kBeside)) option.backend_beside = mark.substr(kBeside.size());
}

std::string text_of_cell(const std::string& cell) { return cell == "-" ? "" : cell; }

bool is_section(const std::string& name) {
  return std::ranges::any_of(option_sections(), [&](const OptionSection& one) { return one.name == name; });
}

OptionInfo option_of(const TextRow& row) {
  OptionInfo option{.name = row.at(0),
                    .kind = kind_of(row.at(1)),
                    .section = row.at(2),
                    .readers = readers_of(row.at(3)),
                    .fallback = text_of_cell(row.at(4)),
                    .help = row.at(8),
                    .value = text_of_cell(row.at(6)),
                    .choices = words_of_cell(row.at(5))};
  CHECK(is_section(option.section));
  for (const std::string& mark : words_of_cell(row.at(7))) take_mark(mark, option);
  return option;
}

}  // namespace

const std::vector<OptionSection>& option_sections() {
  static const std::vector<OptionSection> sections = {
      {kLayout, "Layout", "These set the parallel sizes, the order of the ranks and the size of a node."},
      {kRunSection, "A run of your own",
       "These read the options from what you launch: a log, a YAML file, a script or a command line."},
      {kLayersSection, "Layers", "These say how many layers there are and which stage holds each of them."},
      {kModel, "Model", "These set the shape of the model and its batch."},
      {kExperts, "Experts", "These set the experts, their router and their dispatcher."},
      {kRanks, "Virtual ranks", "These say how virtual ranks run and in which order reductions add."},
      {kPipeline, "Pipeline schedule", "These set the microbatches of a step and what its steps cost."},
      {kCasesSection, "Cases", "These choose the cases and properties to prove and what is drawn."},
      {kTraining, "Training", "These set what is trained, for how long, and what is recomputed."},
      {kMemory, "Memory", "These say what a rank keeps, and what the GPU has."},
      {kShards, "Shards", "These describe a gradient buffer and the ranks that share it."},
      {kExpect, "Expectations", "These state the result that a scenario must have."},
      {kBackendSection, "Backends", "These choose other engines than virtual ranks on the CPU."},
      {kProcessSection, "This process", "These say where processes meet when no launcher does."},
      {kOutputSection, "Output", "These say what is shown and which files are written."},
  };
  return sections;
}

std::vector<OptionInfo> read_options(std::string_view table) {
  std::vector<OptionInfo> options;
  for (const TextRow& row : rows_of_table(table)) {
    if (row.at(1) != "for") {
      options.push_back(option_of(row));
      continue;
    }
    CHECK(!options.empty() && options.back().name == row.at(0));
    options.back().meanings.push_back({.readers = readers_of(row.at(3)),
                                       .fallback = text_of_cell(row.at(4)),
                                       .help = row.at(8),
                                       .choices = words_of_cell(row.at(5))});
  }
  return options;
}

const std::vector<OptionInfo>& option_vocabulary() {
  static const std::vector<OptionInfo> options = read_options(kOptions);
  return options;
}

}  // namespace verify

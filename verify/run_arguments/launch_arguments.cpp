#include "verify/run_arguments/launch_arguments.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/argument_shapes.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/launch_command.h"

namespace verify {

namespace {

bool takes_many(std::string_view argument) {
  const ArgumentShape shape = shape_of_argument(argument);
  return shape == ArgumentShape::list || shape == ArgumentShape::maybes;
}

/// Whether a word has a '/' outside of what is not known: ${DATA}/a is a path, and no bundle of arguments.
bool names_a_file(std::string_view text) {
  bool is_known = true;
  return std::ranges::any_of(text, [&](char c) {
    if (c == kUnknownBegin || c == kUnknownEnd) is_known = c == kUnknownEnd;
    return is_known && c == '/';
  });
}

/// Takes the world that a run of slime gives its actors, which are the ranks that train. Returns whether
/// there is one.
bool takes_world_of_actors(RunArguments& run) {
  const auto of = [&](std::string_view name) -> const RunArgument* {
    const auto last = std::find_if(run.given.rbegin(), run.given.rend(),
                                   [&](const RunArgument& argument) { return argument.name == name; });
    return last == run.given.rend() || last->values.size() != 1 ? nullptr : &*last;
  };
  const RunArgument *nodes = of("actor-num-nodes"), *gpus = of("actor-num-gpus-per-node");
  const auto count = nodes == nullptr ? std::nullopt : whole_number(nodes->values.front());
  const auto per_node = gpus == nullptr ? std::nullopt : whole_number(gpus->values.front());
  std::int64_t ranks = 0;
  if (!count || !per_node || *count < 1 || *per_node < 1 || __builtin_mul_overflow(*count, *per_node, &ranks))
    return false;
  run.world_size = ranks;
  run.gpus_per_node = per_node;
  run.world_size_source = fmt::format("--actor-num-nodes {} x --actor-num-gpus-per-node {}, line {}", *count,
                                      *per_node, gpus->line);
  return true;
}

}  // namespace

void take_arguments(const std::vector<ShellField>& words, const ShellValues& values, RunArguments& run) {
  RunArgument* current = nullptr;
  const auto keep_unresolved = [&](const ShellField& word) {
    for (Unresolved& unknown : values.unresolved(word.text)) {
      if (current != nullptr) unknown.argument = current->name;
      run.unresolved.push_back(std::move(unknown));
    }
    if (run.unresolved.size() <= kMostRunArguments) return;
    sim::refuse({.code = "run_file_size",
                 .option = fmt::format("line {}", word.line),
                 .numbers = fmt::format("more than {} expansions that are not known", kMostRunArguments),
                 .rule = "the values of a launch script are short",
                 .hint = "the command line alone"});
  };
  for (const ShellField& word : words) {
    if (is_flag(word.text)) {
      const std::size_t equals = word.text.find('=');
      run.given.push_back({run_argument_name(values.shown(word.text.substr(0, equals))), {}, word.line});
      current = &run.given.back();
      const std::string written = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
      const bool is_of_deepspeed = written.starts_with("deepspeed");  // it writes its own names so
      if (written.find('_') != std::string::npos && !is_of_deepspeed && !is_known_with_underscores(written) &&
          find_argument(current->name) != nullptr)
        run.with_underscores.push_back({written, {}, word.line});
      if (equals != std::string::npos) current->values.push_back(values.shown(word.text.substr(equals + 1)));
      keep_unresolved(word);
      continue;
    }
    // A variable that stands alone behind a complete argument may hold more of them, and so does one whose
    // text begins with a flag.
    const bool is_complete = current == nullptr || !current->values.empty() ||
                             shape_of_argument(current->name) == ArgumentShape::flag;
    const bool holds_flags = values.shown(word.text).find("=--") != std::string::npos;
    const bool is_of_list = current != nullptr && !current->values.empty() && takes_many(current->name);
    const bool is_another = is_of_list && names_a_file(word.text);
    const bool stands_alone = word.has_unknown() && !is_another && (is_complete || holds_flags);
    if (stands_alone) current = nullptr;
    keep_unresolved(word);
    if (current == nullptr) continue;
    current->values.push_back(values.shown(word.text));
  }
}

void take_world(const LaunchWorld& world, const ShellValues& values, RunArguments& run) {
  if (takes_world_of_actors(run)) return;
  run.gpus_per_node = world.gpus_per_node();
  if (const auto processes = world.processes()) {
    run.world_size = processes;
    run.world_size_source = world.source();
    return;
  }
  if (world.line_of_components() != 0) {
    run.notes.push_back(
        fmt::format("the job has components of their own sizes (hetjob, line {}): --world-size gives the "
                    "ranks of those that srun starts",
                    world.line_of_components()));
  }
  for (const ShellField& factor : world.unknown()) {
    const std::string option = factor.text.substr(0, factor.text.find('='));
    std::vector<Unresolved> unknown = values.unresolved(factor.text);
    if (unknown.empty()) {
      unknown.push_back({.text = factor.text,
                         .variable = {},
                         .argument = {},
                         .line = factor.line,
                         .reason = "it is not a whole number from 1 on"});
    }
    for (Unresolved& entry : unknown) {
      entry.argument = run_argument_name(option);
      entry.is_of_world = true;
      run.unresolved.push_back(std::move(entry));
    }
  }
}

std::optional<std::string> value_handed_on(std::string_view text, std::string_view name) {
  constexpr std::string_view kBefore = "\"\\', =";
  constexpr std::string_view kBetween = "\"\\':= ";
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::string_view line = text.substr(text.rfind('\n', at) + 1, at - text.rfind('\n', at) - 1);
    const std::size_t begin = line.find_first_not_of(" \t");
    const bool is_comment = begin != std::string_view::npos && line[begin] == '#';
    const bool is_alone = begin == std::string_view::npos || line.ends_with("export ");
    if (is_comment || is_alone || kBefore.find(line.back()) == std::string_view::npos) continue;
    const std::size_t end = at + name.size();
    const std::size_t value = text.find_first_not_of(kBetween, end);
    std::size_t stop = value;
    while (stop < text.size() && std::isdigit(static_cast<unsigned char>(text[stop])) != 0) ++stop;
    if (value != std::string_view::npos && value > end && stop > value)
      return std::string(text.substr(value, stop - value));
  }
  return std::nullopt;
}

}  // namespace verify

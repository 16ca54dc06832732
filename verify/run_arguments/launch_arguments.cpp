#include "verify/run_arguments/launch_arguments.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <utility>

#include "verify/output/refusal_table.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/dialects.h"
#include "verify/run_arguments/launch_command.h"
#include "verify/run_arguments/python_value.h"

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

/// Takes the words of a launch: each flag with the words up to the next one.
class Words {
 public:
  Words(const ShellValues& values, RunArguments& run) : values_(values), run_(run) {}

  void take(const ShellField& word) {
    if (is_flag(word.text)) return take_flag(word);
    // A variable that stands alone behind a complete argument may hold more of them, and so does one whose
    // text begins with a flag.
    const bool has_value = current_ != nullptr && !current_->values.empty();
    const bool is_complete =
        current_ == nullptr || has_value || shape_of_argument(current_->name) == ArgumentShape::flag;
    const bool is_another = has_value && takes_many(current_->name) && names_a_file(word.text);
    const bool holds_flags = values_.shown(word.text).find("=--") != std::string::npos;
    if (word.has_unknown() && !is_another && (is_complete || holds_flags)) current_ = nullptr;
    keep_unresolved(word);
    if (current_ != nullptr) current_->values.push_back(values_.shown(word.text));
  }

 private:
  void take_flag(const ShellField& word) {
    const std::size_t equals = word.text.find('=');
    run_.given.push_back({run_argument_name(values_.shown(word.text.substr(0, equals))), {}, word.line});
    current_ = &run_.given.back();
    const std::string written = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    const bool is_of_deepspeed = written.starts_with("deepspeed");  // it writes its own names so
    if (written.find('_') != std::string::npos && !is_of_deepspeed && !is_known_with_underscores(written) &&
        find_argument(current_->name) != nullptr)
      run_.with_underscores.push_back({written, {}, word.line});
    if (equals != std::string::npos) current_->values.push_back(values_.shown(word.text.substr(equals + 1)));
    keep_unresolved(word);
  }

  void keep_unresolved(const ShellField& word) {
    for (Unresolved& unknown : values_.unresolved(word.text)) {
      if (current_ != nullptr) unknown.argument = current_->name;
      run_.unresolved.push_back(std::move(unknown));
    }
    if (run_.unresolved.size() <= kMostRunArguments) return;
    refuse_by("run_file_size/expansions", fmt::format("line {}", word.line), kMostRunArguments);
  }

  const ShellValues& values_;
  RunArguments& run_;
  RunArgument* current_ = nullptr;
};

/// ms-swift has the names of Megatron with "_", and "true" or "false" behind what is a flag of Megatron. It
/// starts torchrun itself, with the processes that two variables of the environment say.
void take_words_of_swift(const LaunchCommand& launch, LaunchWorld& world, RunArguments& run) {
  ShellFields words = {{"torchrun", launch.line}};
  for (const auto& [option, name] :
       {std::pair("--nnodes", "NNODES"), {"--nproc_per_node", "NPROC_PER_NODE"}}) {
    const auto value = launch.variables->find(name);
    if (value != launch.variables->end() && value->second->fields.size() == 1)
      words.insert(words.end(), {{option, launch.line}, value->second->fields.front()});
  }
  if (words.size() > 1) world.read(words, "");
  run.script = "megatron " + run.script;
  run.with_underscores.clear();
  std::erase_if(run.given, [](RunArgument& argument) {
    const bool is_flag = shape_of_argument(argument.name) == ArgumentShape::flag;
    if (!is_flag || argument.values.size() != 1) return false;
    const std::string word = argument.values.front();
    if (word == "true" || word == "True") argument.values.clear();
    return word == "false" || word == "False";
  });
  run.notes.emplace_back(
      "megatron of ms-swift takes the sizes of the model from its checkpoint, and has defaults of its own, "
      "such as --use-distributed-optimizer: what the command does not say is not known");
  constexpr const char* kEtp = "expert-tensor-parallel-size";
  if (std::ranges::find(run.given, kEtp, &RunArgument::name) != run.given.end()) return;
  run.given.push_back({kEtp, {"1"}, launch.line});
  run.notes.emplace_back(
      "--expert-tensor-parallel-size is 1 where a command of ms-swift does not give it, from version 3.9 on");
}

/// "+model.pp=2"; nothing for a word of another form. A key without "." or "_" may be anything.
std::optional<NamedValue> override_in(std::string_view word, int line) {
  const bool is_added = word.starts_with('+');
  word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view path = word.substr(0, equals);
  const bool is_path = !path.empty() && std::ranges::all_of(path, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  });
  if (!is_path || (!is_added && path.find_first_of("._") == std::string_view::npos)) return std::nullopt;
  return NamedValue{std::string(path), python_values(word.substr(equals + 1)), line};
}

std::vector<NamedValue> overrides_in(const ShellFields& words, const ShellValues& values) {
  std::vector<NamedValue> named;
  for (const ShellField& word : words)
    if (auto one = override_in(values.shown(word.text), word.line)) named.push_back(*std::move(one));
  return named;
}

}  // namespace

void take_arguments(const LaunchCommand& launch, const ShellValues& values, LaunchWorld& world,
                    RunArguments& run) {
  Words words(values, run);
  for (const ShellField& word : launch.arguments) words.take(word);
  if (is_of_swift(launch)) take_words_of_swift(launch, world, run);
}

void take_world(const LaunchWorld& world, const ShellValues& values, RunArguments& run) {
  if (takes_world_of_actors(run)) return;
  const StartedWorld started = world.started();
  run.gpus_per_node = started.gpus_per_node;
  if (started.processes) {
    run.world_size = started.processes;
    run.world_size_source = started.source;
    return;
  }
  if (world.line_of_components() != 0) {
    run.notes.push_back(
        fmt::format("the job has components of their own sizes (hetjob, line {}): --world-size gives the "
                    "ranks of those that srun starts",
                    world.line_of_components()));
  }
  for (const ShellField& factor : started.unknown) {
    const std::string option = factor.text.substr(0, factor.text.find('='));
    std::vector<Unresolved> unknown = values.unresolved(factor.text);
    if (unknown.empty())
      unknown.push_back(
          {.text = factor.text, .line = factor.line, .reason = "it is not a whole number from 1 on"});
    for (Unresolved& entry : unknown) {
      entry.argument = run_argument_name(option);
      entry.is_of_world = true;
      run.unresolved.push_back(std::move(entry));
    }
  }
}

bool gives_overrides(const ShellFields& words, const ShellValues& values) {
  return std::ranges::any_of(translated("nested", overrides_in(words, values)).given,
                             [](const RunArgument& argument) {
                               const ArgumentRow* row = find_argument(argument.name);
                               return row != nullptr && row->use == ArgumentUse::used;
                             });
}

void take_overrides(const ShellFields& words, const ShellValues& values, RunArguments& run) {
  Translation all = translated("nested", overrides_in(words, values));
  run.given = std::move(all.given);
  run.unresolved = std::move(all.unresolved);
  for (const ShellField& word : words) {
    const Translation one = translated("nested", overrides_in({word}, values));
    for (Unresolved& unknown : values.unresolved(word.text)) {
      if (!one.given.empty()) unknown.argument = one.given.front().name;
      if (!one.given.empty() || one.unused.empty()) run.unresolved.push_back(std::move(unknown));
    }
  }
  std::string note = "keys of a configuration are read by the names of arguments in them";
  if (!all.unused.empty()) note += "; not used: " + first_names(all.unused, 12);
  run.notes.push_back(std::move(note));
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

#include "verify/run_arguments/launch_world.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "verify/run_arguments/launch_words.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::int64_t kManyNodes = std::int64_t{1} << 40U;  // of an allocation whose nodes are not known

/// "gpu:8" and "gpu:h100:8" of --gres, and "h100:8" of --gpus-per-node, are 8.
std::string count_of(const std::string& value) {
  const std::size_t colon = value.rfind(':');
  return colon == std::string::npos ? value : value.substr(colon + 1);
}

/// Whether a word that is not known may hold options of torchrun: it is no value of an option before it.
bool may_hold_options(const ShellField& before, const ShellField& word) {
  if (!word.has_unknown() || word.text.starts_with('-')) return false;
  return !before.text.starts_with('-') || before.text.find('=') != std::string::npos ||
         meaning_of_option("torchrun", before.text) == "flag";
}

/// An option and the value in its word: "--nnodes=4", or "-N4" of srun.
struct OptionWord {
  std::string name;
  std::optional<std::string> value;
};

OptionWord option_in(std::string_view launcher, const std::string& word) {
  const std::size_t equals = word.find('=');
  const bool has_letter = launcher == "srun" && word.size() > 2 && word[0] == '-' && word[1] != '-';
  if (has_letter && word[2] != '=') return {word.substr(0, 2), word.substr(2)};
  if (equals == std::string::npos) return {word, std::nullopt};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

std::optional<std::int64_t> size_of(const ShellField& value) {
  const auto number = whole_number(value.text);
  return number && *number >= 1 ? number : std::nullopt;
}

/// Lists what is not known of a factor.
void keep_unresolved(const std::string& option, const ShellField& factor, const ShellValues& values,
                     RunArguments& run) {
  std::vector<Unresolved> unknown = values.unresolved(factor.text);
  if (unknown.empty())
    unknown.push_back({.text = option + "=" + factor.text,
                       .line = factor.line,
                       .reason = "it is not a whole number from 1 on"});
  for (Unresolved& entry : unknown) {
    entry.argument = run_argument_name(option);
    entry.is_of_world = true;
    run.unresolved.push_back(std::move(entry));
  }
}

/// The GPUs of a list as CUDA_VISIBLE_DEVICES has it; 0 where the value is no list of numbers.
std::int64_t gpus_in(std::string_view visible) {
  const bool is_list = visible.find_first_not_of("0123456789,") == std::string_view::npos;
  return visible.empty() || !is_list ? 0 : 1 + std::ranges::count(visible, ',');
}

}  // namespace

void LaunchWorld::read(const ShellFields& words, const std::string& launcher) {
  // The line of #SBATCH has its sign before it.
  const bool begins_component =
      words.size() == 2 && (words[1].text == "hetjob" || words[1].text == "packjob");
  if (begins_component) {
    line_of_components_ = words[0].line;
    factors_.erase("srun");
    most_nodes_of_slurm_ = kManyNodes;
  }
  std::string_view current = launcher;
  bool is_in_srun = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view found = launcher_of(words[i].text);
    if (found.empty()) {
      const std::string& word = words[i].text;
      const bool chooses_nodes = word.starts_with("-w") || word.starts_with("--nodelist");
      // A script starts one step for each node so.
      if (current == "srun" && chooses_nodes) most_nodes_of_slurm_ = kManyNodes;
      is_standalone_ = is_standalone_ || (current == "torchrun" && word == "--standalone");
      i += read_option(current, words, i);
      continue;
    }
    is_in_srun = is_in_srun || base_name(words[i].text) == "srun";
    starts_torchrun_by_srun_ = starts_torchrun_by_srun_ || (is_in_srun && found == "torchrun");
    current = found;
    factors_[std::string(found)];
  }
}

void LaunchWorld::read_arguments(const ShellFields& words) {
  for (std::size_t i = 0; i < words.size(); ++i) i += read_option("", words, i);
}

/// Reads an option of a launcher. Returns how many words after it are its value.
std::size_t LaunchWorld::read_option(std::string_view launcher, const ShellFields& words, std::size_t at) {
  const ShellField& word = words[at];
  const OptionWord option = option_in(launcher, word.text);
  const std::string says(meaning_of_option(launcher, option.name));
  if (says.empty() || says == "flag") {
    if (launcher == "torchrun" && at > 0 && may_hold_options(words[at - 1], word))
      unknown_of_torchrun_ = word;
    return 0;
  }
  if (!option.value && at + 1 == words.size()) return 0;
  ShellField value = option.value ? ShellField{*option.value, word.line} : words[at + 1];
  if (says == "gpus-per-node") value.text = count_of(value.text);
  if (launcher == "srun" && says == "nodes")
    most_nodes_of_slurm_ = std::max(most_nodes_of_slurm_, size_of(value).value_or(kManyNodes));
  factors_[std::string(launcher)][says] = {option.name, value};
  return option.value ? 0 : 1;
}

/// Returns the factors of any launcher but torchrun.
std::optional<LaunchWorld::Product> LaunchWorld::product_of(const std::string& launcher) const {
  const Factor *tasks = find(launcher, "tasks"), *nodes = find(launcher, "nodes");
  if (tasks != nullptr) return Product{launcher, {*tasks}};
  const Factor* per_node = find(launcher, "per-node");
  if (per_node == nullptr) per_node = find(launcher, "gpus-per-node");
  const bool is_of_hosts = find(launcher, "hosts") != nullptr && nodes == nullptr;
  if (per_node == nullptr || is_of_hosts) return std::nullopt;
  return Product{launcher, nodes == nullptr ? std::vector{*per_node} : std::vector{*nodes, *per_node}};
}

std::optional<LaunchWorld::Product> LaunchWorld::product() const {
  if (size("", "nodes") && size("", "per-node")) return product_of("");
  if (const auto torchrun = factors_.find("torchrun"); torchrun != factors_.end()) {
    Product product{"torchrun", {}};
    for (const auto& [name, factor] : torchrun->second) product.factors.push_back(factor);
    for (const auto& [name, written] : {std::pair("nodes", "--nnodes"), {"per-node", "--nproc_per_node"}}) {
      if (unknown_of_torchrun_ && !torchrun->second.contains(name))
        product.factors.push_back({written, *unknown_of_torchrun_});
    }
    return product;
  }
  if (factors_.contains("deepspeed")) return product_of("deepspeed");
  for (const char* launcher : {"accelerate", "srun", "mpirun"})
    if (std::optional<Product> product = product_of(launcher)) return product;
  return std::nullopt;
}

void LaunchWorld::take(const ShellValues& values, RunArguments& run) const {
  const std::optional<Product> product = this->product();
  if (product) run.gpus_per_node = gpus_per_node(product->launcher);
  std::int64_t processes = 1;
  bool is_known = product.has_value();
  std::vector<std::string> texts;
  for (const Factor& factor : product ? product->factors : std::vector<Factor>()) {
    const auto size = size_of(factor.value);
    is_known = is_known && size && !__builtin_mul_overflow(processes, *size, &processes);
    if (!size) keep_unresolved(factor.written, factor.value, values, run);
    texts.push_back(factor.written + " " + factor.value.text);
  }
  if (!is_known && line_of_components_ != 0)
    run.notes.push_back(
        fmt::format("the job has components of their own sizes (hetjob, line {}): --world-size gives the "
                    "ranks of those that srun starts",
                    line_of_components_));
  if (!is_known) return;
  const auto& [launcher, factors] = *product;
  const bool lacks_nodes = launcher == "srun" && factors.size() == 1 &&
                           factors.front().written.find("per-node") != std::string::npos;
  run.world_size = processes;
  run.world_size_source =
      factors.empty() ? launcher + " without --nnodes and --nproc_per_node"
                      : fmt::format("{}{}{}, line {}{}", fmt::join(texts, " x "),
                                    launcher.empty() ? "" : " of ", launcher, factors.back().value.line,
                                    lacks_nodes ? ", on one node, for lack of --nodes" : "");
}

std::optional<std::int64_t> LaunchWorld::gpus_per_node(const std::string& launcher) const {
  if (const auto gpus = size(launcher, "gpus-per-node")) return gpus;
  if (const auto processes = size(launcher, "per-node")) return processes;
  const auto tasks = size(launcher, "tasks"), nodes = size(launcher, "nodes");
  return tasks && nodes && *tasks % *nodes == 0 ? std::optional(*tasks / *nodes) : std::nullopt;
}

const LaunchWorld::Factor* LaunchWorld::find(const std::string& launcher, const std::string& name) const {
  const auto factors = factors_.find(launcher);
  if (factors == factors_.end() || (line_of_components_ != 0 && launcher == "srun")) return nullptr;
  const auto factor = factors->second.find(name);
  return factor == factors->second.end() ? nullptr : &factor->second;
}

std::optional<std::int64_t> LaunchWorld::size(const std::string& launcher, const char* name) const {
  const Factor* factor = find(launcher, name);
  return factor == nullptr ? std::nullopt : size_of(factor->value);
}

std::vector<std::string> LaunchWorld::contradictions(std::string_view visible) const {
  std::vector<std::string> told;
  if (!factors_.contains("torchrun")) return told;
  const std::int64_t nodes = size("torchrun", "nodes").value_or(1);
  const std::int64_t processes = size("torchrun", "per-node").value_or(1);
  const auto slurm_nodes = size("srun", "nodes"), tasks = size("srun", "tasks");
  auto tasks_of_node = size("srun", "per-node");
  if (tasks && slurm_nodes) tasks_of_node = (*tasks + *slurm_nodes - 1) / *slurm_nodes;
  const std::int64_t gpus = size("srun", "gpus-per-node").value_or(0), seen = gpus_in(visible);
  const auto tell = [&](bool is_so, std::string sentence) {
    if (is_so) told.push_back(std::move(sentence));
  };
  tell(most_nodes_of_slurm_ > 0 && nodes > most_nodes_of_slurm_,
       fmt::format("torchrun waits for {} nodes, and Slurm gives {}", nodes, most_nodes_of_slurm_));
  tell(starts_torchrun_by_srun_ && tasks_of_node.value_or(1) > 1,
       fmt::format(
           "srun starts torchrun {} times on each node, and each starts {} {}: one task per node is enough",
           tasks_of_node.value_or(1), processes, processes == 1 ? "process" : "processes"));
  const std::string started = fmt::format("torchrun starts {} processes on a node, and", processes);
  tell(gpus > 0 && processes > gpus, fmt::format("{} Slurm gives it {} GPUs", started, gpus));
  tell(seen > 0 && processes > seen,
       fmt::format("{} CUDA_VISIBLE_DEVICES shows them {} GPUs", started, seen));
  tell(is_standalone_ && nodes > 1,
       fmt::format("--standalone is for one node, and torchrun waits for {}", nodes));
  return told;
}

std::map<std::string, ShellField> LaunchWorld::slurm_variables() const {
  std::map<std::string, ShellField> variables;
  for (const LaunchWord& row : launch_words())
    if (row.kind == "variable")
      if (const Factor* factor = find(row.launcher, row.means.front())) variables[row.word] = factor->value;
  return variables;
}

}  // namespace verify

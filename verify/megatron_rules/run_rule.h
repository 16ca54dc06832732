#pragma once

/// A row of the tables of rules by which Megatron refuses a run of --from, and what the rules are held
/// against. They are the rules about arguments that the command line does not know; those about options that
/// it knows are rows of megatron_rule.h.
///
/// Calls   Each concept has a table in a file of its own; run_validation.cpp holds a run against all of them.
/// Exact   A rule whose numbers are not known is not broken.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/megatron_rules/run_values.h"
#include "verify/output/json.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

/// The arguments of a run, the values that Megatron derives of them, and the environment that the file sets.
class JudgedRun {
 public:
  using Number = std::optional<std::int64_t>;

  JudgedRun(const RunValues& values, const std::map<std::string, std::string>& environment, Number world);

  // the arguments
  bool has(const char* name) const { return values_.has(name); }
  bool flag(const char* name) const { return values_.flag(name); }
  Number number(const char* name) const { return values_.number(name); }
  std::int64_t number(const char* name, std::int64_t fallback) const {
    return number(name).value_or(fallback);
  }
  std::string text(const char* name, const std::string& fallback = "") const {
    return values_.text(name, fallback);
  }
  bool is(const char* name, std::string_view value) const { return text(name) == value; }
  std::optional<double> decimal(const char* name) const;
  /// The words of a list, whether it is written as several values or as "[a b]".
  std::vector<std::string> list(const char* name) const;
  bool lists(const char* name, std::string_view word) const;

  // what Megatron derives (effective_values.h)
  Number derived(const char* name) const;
  bool derived_flag(const char* name) const;
  std::string derived_text(const char* name) const;
  bool recomputes(std::string_view module) const;  // among the recomputed modules
  Number tp() const { return derived("tp"); }
  Number pp() const { return derived("pp"); }
  Number cp() const { return derived("cp"); }
  Number layers() const { return derived("num_layers"); }
  bool has_experts() const { return !is_absent("num_experts"); }
  bool is_absent(const char* name) const;
  /// Whether weights are shared by more ranks than tensor parallelism has.
  bool shares_weights() const { return above(derived("gtp"), 1) || above(derived("egtp"), 1); }
  std::string hybrid_pattern() const;
  bool is_gated_delta_net() const;
  std::string checkpoint_format() const { return text("ckpt-format", "torch_dist"); }
  std::string optimizer() const { return text("optimizer", "adam"); }

  Number world() const { return world_; }
  /// A variable that the file sets; nothing where it does not say it.
  std::optional<std::string> environment(const char* name) const;
  /// The value of an argument or of a derived value as a refusal tells it.
  std::string told(const char* argument) const;
  std::string told_derived(const char* name) const;

  static bool above(Number value, std::int64_t limit) { return value && *value > limit; }

 private:
  const RunValues& values_;
  const std::map<std::string, std::string>& environment_;
  Number world_;
  Json derived_;
};

/// Whether a size does not divide into parts. A division by zero is another rule's.
bool is_undivided(JudgedRun::Number size, JudgedRun::Number parts);
/// The least multiple of a part from a size on; nothing where the part is none.
JudgedRun::Number multiple_from(JudgedRun::Number size, JudgedRun::Number part);

/// Whether each layer has CUDA graphs of its own, of all its modules or of some.
bool has_layer_graphs(const JudgedRun& run);
/// The modules that have CUDA graphs: those of the older argument where the newer one is not given. None:
/// all.
std::vector<std::string> captured_modules(const JudgedRun& run);
/// Whether a module is among those that are named to have CUDA graphs.
bool captures_module(const JudgedRun& run, std::string_view module);

/// Whether sparse attention (dsa) reads a way of communication as all_gather: without underscores, and in
/// letters of any case.
bool gathers_tokens(std::string cp_comm_type);

struct RunRule {
  const char* code;
  std::vector<const char*> arguments;  // the refusal names the first, and the values of all of them
  bool (*broken)(const JudgedRun&);
  const char* rule;
  const char* hint;
  std::vector<const char*> derived = {};                      // derived values that the refusal tells as well
  std::string (*numbers_to_try)(const JudgedRun&) = nullptr;  // a hint with numbers; "" where none is known
};

/// The tables, in the order in which their refusals are told.
std::vector<RunRule> removed_argument_rules();
std::vector<RunRule> run_grid_rules();
std::vector<RunRule> run_batch_rules();
std::vector<RunRule> run_model_rules();
std::vector<RunRule> run_variant_rules();
std::vector<RunRule> run_precision_rules();
std::vector<RunRule> run_pipeline_rules();
std::vector<RunRule> hybrid_pattern_rules();
std::vector<RunRule> run_sequence_rules();
std::vector<RunRule> run_expert_rules();
std::vector<RunRule> run_recompute_rules();
std::vector<RunRule> run_graph_rules();
std::vector<RunRule> run_optimizer_rules();
std::vector<RunRule> run_fsdp_rules();
std::vector<RunRule> run_training_rules();

}  // namespace verify

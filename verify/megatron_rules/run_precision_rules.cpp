#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

bool is_half(const JudgedRun& r) { return r.flag("fp16") || r.flag("bf16"); }

/// Whether so many layers at one end stay in bf16 as a pipeline rank does not have.
bool are_bf16_layers_broken(const JudgedRun& r, const char* argument) {
  const auto layers = r.layers(), ranks = r.pp();
  if (!r.has("fp8-format") || !r.flag("first-last-layers-bf16") || !layers || !ranks || *ranks < 1)
    return false;
  const std::int64_t given = r.number(argument, 1);
  return given < 0 || given > *layers / *ranks;
}

bool shards_parameters(const JudgedRun& r) {
  return r.flag("use-distributed-optimizer") || r.flag("use-torch-fsdp2") || r.flag("use-megatron-fsdp");
}

}  // namespace

/// The rules about the dtypes of parameters, gradients and products.
std::vector<RunRule> run_precision_rules() {
  return {
      {"fp16_loss_needs_fp16",
       {"fp16-lm-cross-entropy", "fp16"},
       [](const JudgedRun& r) { return r.flag("fp16-lm-cross-entropy") && !r.flag("fp16"); },
       "a loss in fp16 needs parameters in fp16",
       "leave --fp16-lm-cross-entropy out"},
      {"fp32_residual_needs_half",
       {"fp32-residual-connection", "fp16", "bf16"},
       [](const JudgedRun& r) { return r.flag("fp32-residual-connection") && !is_half(r); },
       "residual connections in fp32 need parameters in fp16 or bf16",
       "--bf16"},
      {"fp8_delayed_bf16_layers",
       {"first-last-layers-bf16", "fp8-recipe"},
       [](const JudgedRun& r) {
         return r.has("fp8-format") && r.flag("first-last-layers-bf16") &&
                r.text("fp8-recipe", "delayed") == "delayed";
       },
       "delayed scaling, the recipe unless given, has no layers in bf16",
       "--fp8-recipe tensorwise"},
      {"fp8_bf16_start_layers",
       {"num-layers-at-start-in-bf16"},
       [](const JudgedRun& r) { return are_bf16_layers_broken(r, "num-layers-at-start-in-bf16"); },
       "the layers in bf16 at the start are those of one pipeline rank at most",
       "--num-layers-at-start-in-bf16 1",
       {"num_layers", "pp"}},
      {"fp8_bf16_end_layers",
       {"num-layers-at-end-in-bf16"},
       [](const JudgedRun& r) { return are_bf16_layers_broken(r, "num-layers-at-end-in-bf16"); },
       "the layers in bf16 at the end are those of one pipeline rank at most",
       "--num-layers-at-end-in-bf16 1",
       {"num_layers", "pp"}},
      {"fp8_param_gather_needs_distopt",
       {"fp8-param-gather", "use-distributed-optimizer"},
       [](const JudgedRun& r) { return r.flag("fp8-param-gather") && !shards_parameters(r); },
       "parameters are gathered in 8 bits by the distributed optimizer or by fully sharded data parallelism",
       "--use-distributed-optimizer"},
      {"fp8_param_without_fp8",
       {"fp8-param-gather", "fp8-format"},
       [](const JudgedRun& r) {
         return r.flag("fp8-param-gather") && !r.has("fp8-format") && !r.flag("use-torch-fsdp2");
       },
       "parameters are gathered in 8 bits where products are computed in 8 bits",
       "--fp8-format hybrid"},
      {"fp8_custom_factory",
       {"fp8-recipe", "fp8-quantizer-factory"},
       [](const JudgedRun& r) {
         return r.has("fp8-format") && r.is("fp8-recipe", "custom") && !r.has("fp8-quantizer-factory");
       },
       "the recipe custom needs the Python name of what makes its quantizers",
       "--fp8-quantizer-factory package.module.factory"},
      {"fp4_custom_factory",
       {"fp4-recipe", "fp4-quantizer-factory"},
       [](const JudgedRun& r) {
         return r.has("fp4-format") && r.is("fp4-recipe", "custom") && !r.has("fp4-quantizer-factory");
       },
       "the recipe custom needs the Python name of what makes its quantizers",
       "--fp4-quantizer-factory package.module.factory"},
      {"fp8_output_layer",
       {"fp8-output-proj", "fp8-format", "fp8-recipe"},
       [](const JudgedRun& r) {
         return r.flag("fp8-output-proj") && (!r.has("fp8-format") || !r.is("fp8-recipe", "mxfp8"));
       },
       "the output layer is computed in 8 bits of the recipe mxfp8",
       "--fp8-format e4m3 --fp8-recipe mxfp8"},
      {"fp4_and_fp8",
       {"fp4-format", "fp8-format"},
       [](const JudgedRun& r) { return r.has("fp4-format") && r.has("fp8-format"); },
       "products are computed in 4 bits or in 8 bits",
       "one of them"},
      {"fp4_param_without_fp4",
       {"fp4-param-gather", "fp4-format"},
       [](const JudgedRun& r) { return r.flag("fp4-param-gather") && !r.has("fp4-format"); },
       "parameters are gathered in 4 bits where products are computed in 4 bits",
       "--fp4-format e2m1"},
  };
}

}  // namespace verify

#include "verify/requests/case_options.h"

#include "verify/vocabulary/settings.h"

namespace verify {

CaseOptions case_options(const Settings& settings) {
  CaseOptions options{.cases = settings.texts("case"),
                      .properties = settings.texts("property"),
                      .dtypes = settings.texts("dtype"),
                      .runs = settings.number("runs"),
                      .seed = static_cast<std::uint64_t>(settings.number("seed").value_or(0)),
                      .max_world = settings.number("max-world"),
                      .dimensions = std::nullopt,
                      .world_size = settings.number("world-size").value_or(1),
                      .tensor_model_parallel_size = settings.number("tensor-model-parallel-size").value_or(1),
                      .plants = settings.texts("plant"),
                      .faults = settings.texts("fault"),
                      .threads = settings.number("threads")};
  if (settings.has("dimensions")) options.dimensions = settings.text("dimensions", "");
  return options;
}

std::string command_line_of(const NamedValues& values) {
  Settings settings;
  for (const auto& [name, value] : values) settings.append(name, {value});
  return settings.as_command_line();
}

}  // namespace verify

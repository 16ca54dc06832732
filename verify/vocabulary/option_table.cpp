#include "verify/vocabulary/option_table.h"

namespace verify {

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

const std::vector<OptionInfo>& option_vocabulary() {
  static const std::vector<OptionInfo> options = [] {
    std::vector<OptionInfo> all = options_of_the_model();
    const std::vector<OptionInfo> further = options_of_the_proof();
    all.insert(all.end(), further.begin(), further.end());
    return all;
  }();
  return options;
}

}  // namespace verify

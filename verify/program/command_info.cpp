#include "verify/program/command_info.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "verify/cases/case.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr const char* kOneScenario = "[SCENARIO.ini]";

std::vector<ExitCodeInfo> codes_of_a_view() {
  return {{kVerified, "The result was shown."},
          {kRefused,
           "The command line, the scenario or the layout was refused, or the result could not be written."}};
}

CommandInfo replay_info() {
  return {.name = "replay",
          .arguments = "[SCENARIO.ini...]",
          .summary = "Proves layouts end to end, with one row for each check.",
          .about =
              "Proves the layouts of scenario files. Without a file, it proves the layout of the options "
              "if there is a --world-size among them, and otherwise every scenario that 'shardproof list' "
              "names. Options of the command line replace those of a scenario.",
          .reader = Reader::replay,
          .examples = {{"Prove a layout of 512 GPUs without a file. No rank runs, so it takes a second.",
                        "replay --world-size 512 --tensor-model-parallel-size 8 --layout-only"},
                       {"Prove a published layout, and write a page about it.",
                        "replay scenarios/published/seed-002-moe.ini --report report.html"},
                       {"See what is said about a program that would hang.",
                        "replay --world-size 2 --program mutual_send", kBroken}},
          .exit_codes =
              {{kVerified, "Every check holds."},
               {kFalsified, "A check does not hold."},
               {kRefused,
                "The command line, a scenario or a layout was refused, or a result could not be written."},
               {kBroken, "A rank program broke a contract: a deadlock or a mismatch, for example."},
               {kUnavailable, "The backend or the device is not in this build or on this machine."},
               {kSuspect, "Every check holds, but Megatron would train on wrong ranks: see the warnings."}},
          .run = run_replay};
}

CommandInfo groups_info() {
  return {
      .name = "groups",
      .arguments = kOneScenario,
      .summary = "Shows every process group of a layout.",
      .about =
          "Shows the process groups that Megatron creates for a layout, kind by kind, and how many of them "
          "cross nodes. Options describe the layout, or replace those of a scenario. With --against it says "
          "which groups of a running job are others.",
      .reader = Reader::groups,
      .examples = {{"Show all groups of a layout.", "groups --world-size 16 --tensor-model-parallel-size 4"},
                   {"Show four kinds of groups of a published layout.",
                    "groups scenarios/published/seed-002-moe.ini --kind tp,ep,edp,pp"},
                   {"Show the groups that hold rank 9, as JSON.",
                    "groups --world-size 16 --tensor-model-parallel-size 4 --rank 9 --format json"}},
      .exit_codes =
          {{kVerified, "The result was shown; with --against, no group differs."},
           {kFalsified, "A group of the dump of --against differs, or one is missing."},
           {kRefused,
            "The command line, the scenario, the layout or the dump was refused, or the result could "
            "not be written."}},
      .run = run_groups};
}

CommandInfo layers_info() {
  return {
      .name = "layers",
      .arguments = kOneScenario,
      .summary = "Shows which layers are on which pipeline rank and chunk.",
      .about =
          "Shows the layers that Megatron places on every pipeline rank and chunk. Options describe the "
          "model, or replace those of a scenario.",
      .reader = Reader::layers,
      .examples =
          {{"Divide 32 layers among 4 pipeline ranks.",
            "layers --num-layers 32 --pipeline-model-parallel-size 4"},
           {"Give the first pipeline rank fewer layers than the others.",
            "layers --num-layers 14 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2"},
           {"Spell out the four stages of two ranks with two chunks each.",
            "layers --num-layers 7 --pipeline-model-parallel-size 2 "
            "--pipeline-model-parallel-layout 'Et|tt|tt|ttL'"}},
      .exit_codes = codes_of_a_view(),
      .run = run_layers};
}

CommandInfo schedule_info() {
  return {.name = "schedule",
          .arguments = kOneScenario,
          .summary = "Shows what each pipeline rank computes, sends and receives.",
          .about =
              "Shows a pipeline schedule: its steps, the activations that are live, its messages and its "
              "bubble. It needs --num-microbatches, or a layout with --global-batch-size. With --machine it "
              "shows the "
              "training step of a scenario in the times that are estimated for it.",
          .reader = Reader::schedule,
          .examples = {{"Show 1F1B with 8 microbatches on 4 ranks.",
                        "schedule --pipeline-model-parallel-size 4 --num-microbatches 8"},
                       {"Show interleaved 1F1B, with two chunks on each rank.",
                        "schedule --pipeline-model-parallel-size 2 --virtual-pipeline-model-parallel-size 2 "
                        "--num-microbatches 4"},
                       {"Draw GPipe into a file.",
                        "schedule --pipeline-model-parallel-size 4 --num-microbatches 8 --schedule gpipe "
                        "--svg gpipe.svg"}},
          .exit_codes = codes_of_a_view(),
          .run = run_schedule};
}

CommandInfo shards_info() {
  return {
      .name = "shards",
      .arguments = kOneScenario,
      .summary = "Shows a gradient buffer: parameters, padding, buckets and owners.",
      .about =
          "Shows how Megatron's distributed optimizer (ZeRO-1) lays out a gradient buffer. The parameters "
          "are given by --param-sizes, or are those of a GPT whose shape is given.",
      .reader = Reader::shards,
      .examples = {{"Show three parameters in buckets that four ranks share.",
                    "shards --param-sizes 70,50,200 --data-parallel-size 4 --bucket-size 150"},
                   {"Show a small GPT that two ranks share.",
                    "shards --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 256 "
                    "--seq-length 32 --data-parallel-size 2"},
                   {"Write the map of every rank's part as JSON.",
                    "shards --param-sizes 1000,50 --data-parallel-size 4 --format json"}},
      .exit_codes = codes_of_a_view(),
      .run = run_shards};
}

CommandInfo memory_info() {
  return {
      .name = "memory",
      .arguments = kOneScenario,
      .summary = "Shows what each pipeline stage holds, and whether it fits.",
      .about =
          "Counts the memory per rank of each pipeline stage at the full size of the model: parameters, "
          "gradients and optimizer states between steps, and the largest moment of a step with its "
          "activations and logits. A vocabulary that is not given is taken from the tokenizer, or the answer "
          "says what further entries take; a number of ranks that is not known is the fewest of the layout. "
          "With --gpu-memory it judges, and says what would help. With --out-of-memory it names the tensor "
          "that found no room. verify/memory/README.md compares the figures with measured runs. With --sweep "
          "it compares the layouts of the job that Megatron accepts, and with --machine it estimates the "
          "time "
          "of a step.",
      .reader = Reader::memory,
      .examples =
          {{"Judge the run that a command starts. The command is pasted behind '--'.",
            "memory --gpu-memory 80GB -- torchrun --nproc_per_node 8 pretrain_gpt.py "
            "--tensor-model-parallel-size 4 --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
            "--vocab-size 131073 --seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 "
            "--bf16"},
           {"See what would help a model that does not fit.",
            "memory --world-size 8 --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size "
            "131073 --seq-length 8192 --gpu-memory 80GB",
            kFalsified},
           {"Compare layouts of a published job, and show the best five.",
            "memory scenarios/published/narayanan-2021-39p1b.ini --sweep --sweep-rows 5"}},
      .exit_codes =
          {{kVerified, "The memory was shown; with --gpu-memory, every stage fits."},
           {kFalsified, "A stage does not fit, fit cannot be determined, or --out-of-memory was diagnosed."},
           {kRefused,
            "The command line, the scenario, the layout or the model was refused, or the result could "
            "not be written."}},
      .run = run_memory};
}

CommandInfo check_info() {
  return {
      .name = "check",
      .arguments = "",
      .summary = "Proves sharded layers over random worlds and shapes.",
      .about =
          "Draws worlds, shapes and flags for every case, and holds what the ranks compute against the same "
          "mathematics on one device. A failure is shrunk and written as a scenario, which 'shardproof "
          "replay' runs again. Under mpirun, --backend mpi holds processes against virtual ranks.",
      .reader = Reader::check,
      .examples = {{"Prove two layers, each property with 20 draws.",
                    "check --case column_parallel_linear,mlp --runs 20"},
                   {"Prove in exact arithmetic that a layer equals the serial one.",
                    "check --case row_parallel_linear --property serial --dtype field"},
                   {"Draw other settings, on worlds of at most 4 ranks.",
                    "check --case mlp --runs 20 --seed 7 --max-world 4"}},
      .exit_codes = {{kVerified, "Every property holds in every run."},
                     {kFalsified, "A property does not hold."},
                     {kRefused, "The command line was refused, or a result could not be written."},
                     {kBroken, "A case broke a contract: a deadlock or a mismatch, for example."},
                     {kUnavailable, "The backend or the device is not in this build or on this machine."},
                     {kInterrupted, "An interrupt (Ctrl-C) came first, and nothing had failed."}},
      .run = run_check};
}

CommandInfo exam_info() {
  return {
      .name = "exam",
      .arguments = "[FILE...]",
      .summary = "Plants faults in layers, and says which the properties catch.",
      .about =
          "Plants faults at every call site and kernel that the cases reach, one at a time, and judges each "
          "by the properties of check: caught, equivalent (nothing that a rank computes or calls differs) or "
          "missed. The score is the share that was caught of all that are not equivalent. It also says how "
          "many explanations name the site, the ranks and the kind of the mistake. With --catalogue it "
          "plants "
          "the published bugs of FILE, and says which of them the expected property catches. With --power it "
          "says how small a relative error each property sees.",
      .reader = Reader::exam,
      .examples = {{"Examine the properties of one layer.", "exam --case row_parallel_linear"},
                   {"Plant the published bugs of one layer.", "exam --catalogue --case row_parallel_linear"},
                   {"Search how small an error in a layer is caught.",
                    "exam --power --case parallel_dropout"}},
      .exit_codes = {{kVerified, "Every fault was caught, or is equivalent, and no clean run failed."},
                     {kFalsified, "A fault was missed, or a run without a fault failed."},
                     {kRefused, "The command line was refused, or the result could not be written."},
                     {kInterrupted, "An interrupt (Ctrl-C) came first, and nothing had been missed."}},
      .run = run_exam};
}

CommandInfo inspect_info() {
  return {
      .name = "inspect",
      .arguments = "DUMP...",
      .summary = "Says which ranks a job that hung waits for, from its flight-recorder dumps.",
      .about =
          "Reads what PyTorch's flight recorder wrote, one dump per rank, from files and folders, as pickle "
          "or "
          "JSON. It says which ranks to look at first and why, who waits for whom, in which calls the ranks "
          "disagree, and what the dumps cannot tell. Nothing in a dump is executed. The layout is inferred "
          "from the groups, or is that of --from or of the options.",
      .reader = Reader::inspect,
      .examples = {{"Find the rank that stopped, in the dumps of four ranks.",
                    "inspect scenarios/dumps/stopped-rank", kFalsified},
                   {"Explain two groups whose calls were made in crossed order, as JSON.",
                    "inspect scenarios/dumps/crossed-groups --format json", kFalsified},
                   {"Inspect the dumps of a run in which every call matched.",
                    "inspect scenarios/dumps/matched"}},
      .exit_codes = {{kVerified, "Nothing was found: no rank waits, and the ranks agree."},
                     {kFalsified, "Something was found: ranks that wait, or a disagreement."},
                     {kRefused,
                      "The command line or a dump was refused, there is no dump, or the result could not be "
                      "written."}},
      .run = run_inspect};
}

CommandInfo list_info() {
  return {
      .name = "list",
      .arguments = "",
      .summary = "Lists scenarios, checks, defects, properties, cases and kinds.",
      .about =
          "Lists the names that other commands take: scenarios, programs with a planted defect, properties, "
          "cases and kinds of groups. It also says what every check of replay proves.",
      .reader = Reader::list,
      .examples = {{"List everything.", "list"},
                   {"Find the planted defects that end in a deadlock.", "list | grep deadlock"},
                   {"List everything as JSON.", "list --format json"}},
      .exit_codes = {{kVerified, "The list was shown."},
                     {kRefused, "The command line was refused, or the list could not be written."}},
      .run = run_list};
}

/// Returns the smallest dimensions of a case, such as "tokens=1,hidden=1".
std::string smallest_dimensions(const Case& the_case) {
  std::string text;
  for (const Dimension& dimension : the_case.dimensions())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", dimension.name, dimension.least);
  return text;
}

std::vector<ExitCodeInfo> exit_codes() {
  return {{kVerified, "Everything holds."},
          {kFalsified, "A property does not hold."},
          {kRefused, "The command line, a scenario or a case was refused, or a result could not be written."},
          {kBroken, "A case broke a contract: a deadlock or a mismatch, for example."}};
}

CommandInfo check_info(const std::string& first) {
  CommandInfo info = {
      .name = "check",
      .arguments = "",
      .summary = "Proves the cases over random worlds and shapes. The word may be left out.",
      .about =
          "Draws worlds, shapes and flags for every case, and holds what the ranks compute against the "
          "reference of the case. A failure is shrunk and written as a scenario, which the command replay "
          "runs again. Under mpirun, --backend mpi holds processes against virtual ranks.",
      .reader = Reader::check_of_project,
      .examples = {{"Prove every case, each property with 20 draws.", "check --runs 20"},
                   {"Prove in exact arithmetic that a case equals its reference.",
                    fmt::format("check --case {} --property serial --dtype field", first)},
                   {"Draw other settings, on worlds of at most 4 ranks.",
                    "check --runs 20 --seed 7 --max-world 4"}},
      .exit_codes = exit_codes()};
  info.exit_codes.push_back({kUnavailable, "The backend is not in this build or on this machine."});
  info.exit_codes.push_back({kInterrupted, "An interrupt (Ctrl-C) came first, and nothing had failed."});
  return info;
}

CommandInfo exam_info(const std::string& first) {
  return {.name = "exam",
          .arguments = "[FILE.ini...]",
          .summary = "Plants faults in the cases, and says which the properties catch.",
          .about =
              "Plants faults at every call site and kernel that the cases reach, one at a time, and judges "
              "each by the properties: caught, equivalent (nothing differs) or missed. With --catalogue it "
              "plants the bugs of the files, and says which of them the expected property catches.",
          .reader = Reader::exam_of_project,
          .examples = {{"Examine all cases.", "exam"},
                       {"Examine one case.", fmt::format("exam --case {}", first)},
                       {"Plant one fault everywhere.", "exam --fault own-term"}},
          .exit_codes = exit_codes()};
}

CommandInfo replay_info(const Case& first) {
  const std::string setting = fmt::format("replay --case {} --property serial --dtype field --dimensions {}",
                                          first.name(), smallest_dimensions(first));
  return {.name = "replay",
          .arguments = "[FILE.ini]",
          .summary = "Runs one setting of one case, as check wrote it.",
          .about =
              "Runs the setting of a file that check wrote, or that of the options. It needs --case, "
              "--property, --dtype and --dimensions.",
          .reader = Reader::replay_of_project,
          .examples = {{"Run the smallest setting on one rank.", setting},
                       {"Run it on two tensor-parallel ranks.",
                        setting + " --world-size 2 --tensor-model-parallel-size 2"},
                       {"Write the result as JSON.", setting + " --format json"}},
          .exit_codes = exit_codes()};
}

}  // namespace

bool takes_scenarios(const CommandInfo& command) {
  return std::string_view(command.arguments).find("SCENARIO") != std::string_view::npos;
}

const ProgramInfo& shardproof_program() {
  static const ProgramInfo program = {
      .called = "shardproof",
      .purpose = "Proves a Megatron-style model-parallel layout on the CPU, before it costs a GPU hour.",
      .commands = {replay_info(), groups_info(), layers_info(), schedule_info(), shards_info(), memory_info(),
                   check_info(), exam_info(), inspect_info(), list_info()},
      .cases = all_cases(),
      .has_pages = true,
      .closing =
          "The script ./shardproof of a checkout has four more commands: test, benchmarks, format and lint. "
          "README.md and the README.md of every folder are the manuals."};
  return program;
}

const CommandInfo& command_named(const ProgramInfo& program, const std::string& name) {
  const auto& commands = program.commands;
  const auto found = std::ranges::find_if(commands, [&](const CommandInfo& c) { return name == c.name; });
  if (found != commands.end()) return *found;
  std::vector<std::string> names;
  for (const CommandInfo& command : commands) names.emplace_back(command.name);
  const std::string nearest = nearest_name(name, names);
  const std::string help = program.called + " --help";
  sim::refuse(
      {.code = "unknown_command",
       .option = name,
       .numbers = "there is no such command",
       .rule = fmt::format("the commands are {}", fmt::join(names, ", ")),
       .hint = nearest.empty() ? help : fmt::format("{} {}, or see {}", program.called, nearest, help)});
}

ProgramInfo project_program(const std::string& called, const CaseList& cases) {
  std::string names;
  for (const auto& one : cases) names += " " + one->name();
  return {.called = called,
          .purpose = "Proves sharded layers against their references, with shardproof.",
          .commands = {check_info(cases.front()->name()), exam_info(cases.front()->name()),
                       replay_info(*cases.front())},
          .cases = cases,
          .has_pages = false,
          .closing = "cases:" + names};
}

}  // namespace verify

#include "tests/house/rooms.h"

#include <regex>

namespace test {

const std::vector<Room>& rooms() {
  static const std::vector<Room> table = {
      {"sim/base", "scalars, field, refusals", {}},
      {"sim/layout", "ranks, groups, placement", {"sim/base"}},
      {"sim/tensor", "tensors, Device interface", {"sim/base"}},
      {"sim/cpu", "kernels on the CPU", {"sim/base", "sim/tensor"}},
      {"sim/shapes", "a device without elements", {"sim/base", "sim/tensor", "sim/cpu"}},
      {"sim/comm", "Communicator, its ledger", {"sim/base", "sim/layout", "sim/tensor"}},
      {"sim/fibers", "threads of control", {"sim/base"}},
      {"sim/world",
       "virtual ranks, diagnosis",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/fibers"}},
      {"sim/launch", "which rank a process is", {"sim/base", "sim/layout", "sim/comm"}},
      {"sim/meeting", "processes meet over TCP", {"sim/base"}},
      {"sim/mpi",
       "Communicator over MPI",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/launch", "sim/meeting"}},
      {"sim/parallel", "sharded layers", {"sim/base", "sim/layout", "sim/tensor", "sim/comm"}},
      {"sim/context",
       "cuts of sequences",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/experts",
       "mixtures of experts",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/optimizer",
       "ZeRO-1, checkpoints",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/pipeline", "schedules, their executor", {"sim/base", "sim/layout", "sim/tensor", "sim/comm"}},
      {"sim/model",
       "the GPT and its training",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel", "sim/context", "sim/experts",
        "sim/optimizer", "sim/pipeline"}},
      // Kernels and their launchers know only plain numbers. The device also knows tensors, and the
      // communicator also knows ranks.
      {"gpu/device", "CUDA device and kernels", {"sim/base", "sim/tensor"}},
      {"gpu/nccl",
       "Communicator over NCCL",
       {"gpu/device", "sim/base", "sim/layout", "sim/tensor", "sim/cpu", "sim/comm", "sim/launch",
        "sim/meeting"}},
      {"gpu/cuda", "what CUDA and NCCL do", {"gpu/device", "gpu/nccl", "sim/base"}},
      {"gpu/on_host", "a GPU played by the CPU", {"gpu/device", "sim/base"}},
      {"gpu/stub", "a build without CUDA", {"gpu/device", "gpu/nccl", "sim/base"}},
      // A reference shares no code with the layers that it judges.
      {"verify/reference", "layers on one device", {"sim/base"}},
      {"verify/output", "text, tables, JSON, files", {"sim"}},
      {"verify/recordings", "dumps of flight recorders", {"sim", "verify/output"}},
      {"verify/run_arguments", "logs, YAML, scripts", {"sim", "verify/output"}},
      {"verify/vocabulary", "options, their values", {"sim", "verify/output", "verify/run_arguments"}},
      {"verify/megatron_rules",
       "what Megatron refuses",
       {"sim", "verify/output", "verify/run_arguments", "verify/vocabulary"}},
      {"verify/requests",
       "typed requests",
       {"sim", "verify/output", "verify/recordings", "verify/run_arguments", "verify/vocabulary",
        "verify/megatron_rules"}},
      {"verify/cases", "what is proved", {"sim", "verify/reference"}},
      {"verify/faults", "planted faults", {"sim", "verify/vocabulary"}},
      {"verify/properties",
       "what holds of every case",
       {"sim", "verify/reference", "verify/cases", "verify/faults"}},
      {"verify/explain",
       "what is wrong",
       {"sim", "verify/reference", "verify/output", "verify/cases", "verify/faults", "verify/properties"}},
      {"verify/campaign",
       "drawn settings, shrinking",
       {"sim", "verify/vocabulary", "verify/requests", "verify/cases", "verify/properties",
        "verify/explain"}},
      {"verify/exam",
       "what properties see",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases", "verify/faults",
        "verify/properties", "verify/explain", "verify/campaign"}},
      {"verify/backends",
       "ranks on real engines",
       {"sim", "gpu", "verify/output", "verify/requests", "verify/cases", "verify/properties"}},
      {"verify/checks",
       "the checks of a replay",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases", "verify/faults",
        "verify/properties", "verify/explain", "verify/campaign"}},
      {"verify/memory",
       "what a rank holds",
       {"sim", "verify/output", "verify/run_arguments", "verify/vocabulary", "verify/megatron_rules",
        "verify/requests", "verify/checks"}},
      {"verify/full_size",
       "a step of the real model",
       {"sim", "verify/reference", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases",
        "verify/checks", "verify/memory"}},
      {"verify/sweep",
       "layouts on paper",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/memory", "verify/full_size"}},
      {"verify/replay",
       "one scenario, end to end",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases", "verify/faults",
        "verify/properties", "verify/backends", "verify/checks", "verify/memory", "verify/full_size"}},
      {"verify/inspect",
       "dumps of a job that hung",
       {"sim", "verify/output", "verify/recordings", "verify/checks"}},
      {"verify/views", "groups and schedules", {"sim", "verify/output", "verify/megatron_rules"}},
      {"verify/report",
       "the page, JUnit, traces",
       {"sim", "verify/output", "verify/requests", "verify/backends", "verify/checks", "verify/memory",
        "verify/sweep", "verify/replay", "verify/views"}},
      {"verify/program",
       "the commands",
       {"sim", "verify/output", "verify/recordings", "verify/vocabulary", "verify/megatron_rules",
        "verify/requests", "verify/cases", "verify/faults", "verify/properties", "verify/campaign",
        "verify/exam", "verify/backends", "verify/checks", "verify/memory", "verify/sweep", "verify/replay",
        "verify/inspect", "verify/views", "verify/report"}},
      {"verify", "main(), prove()", {"sim", "verify"}},
      {"tests", "all tests", {"tests", "verify", "gpu", "sim"}},
  };
  return table;
}

const Room* room_of(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  for (const Room& room : rooms()) {
    if (room.folder == folder || (room.folder == "tests" && path.starts_with("tests/"))) return &room;
  }
  return nullptr;
}

std::vector<std::string> included_files(const SourceFile& file) {
  static const std::regex pattern("\\s*#\\s*include\\s*[\"<]((?:sim|gpu|verify|tests)/[^\">]+)[\">].*");
  std::vector<std::string> found;
  std::smatch match;
  for (const std::string& line : lines_with(file.text, {"include"})) {
    if (std::regex_match(line, match, pattern)) found.push_back(match[1].str());
  }
  return found;
}

}  // namespace test

#include "tests/house/rooms.h"

#include <regex>

namespace test {

const std::vector<Room>& rooms() {
  static const std::vector<Room> table = {
      {"sim/base", {}},
      {"sim/layout", {"sim/base"}},
      {"sim/tensor", {"sim/base"}},
      {"sim/cpu", {"sim/base", "sim/tensor"}},
      {"sim/shapes", {"sim/base", "sim/tensor", "sim/cpu"}},
      {"sim/comm", {"sim/base", "sim/layout", "sim/tensor"}},
      {"sim/fibers", {"sim/base"}},
      {"sim/world", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/fibers"}},
      {"sim/guest", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/world"}},
      {"sim/launch", {"sim/base", "sim/layout", "sim/comm"}},
      {"sim/meeting", {"sim/base"}},
      {"sim/mpi", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/launch", "sim/meeting"}},
      {"sim/parallel", {"sim/base", "sim/layout", "sim/tensor", "sim/comm"}},
      {"sim/context", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/experts", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/optimizer", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/pipeline", {"sim/base", "sim/layout", "sim/tensor", "sim/comm"}},
      {"sim/model",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel", "sim/context", "sim/experts",
        "sim/optimizer", "sim/pipeline"}},
      // Kernels and their launchers know only plain numbers. The device also knows tensors, and the
      // communicator also knows ranks.
      {"gpu/device", {"sim/base", "sim/tensor"}},
      {"gpu/nccl",
       {"gpu/device", "sim/base", "sim/layout", "sim/tensor", "sim/cpu", "sim/comm", "sim/launch",
        "sim/meeting"}},
      {"gpu/cuda", {"gpu/device", "gpu/nccl", "sim/base"}},
      {"gpu/on_host", {"gpu/device", "sim/base"}},
      {"gpu/stub", {"gpu/device", "gpu/nccl", "sim/base"}},
      // A reference shares no code with the layers that it judges.
      {"verify/reference", {"sim/base"}},
      {"verify/output", {"sim"}},
      {"verify/recordings", {"sim", "verify/output"}},
      {"verify/run_arguments", {"sim", "verify/output"}},
      {"verify/vocabulary", {"sim", "verify/output", "verify/run_arguments"}},
      {"verify/megatron_rules", {"sim", "verify/output", "verify/run_arguments", "verify/vocabulary"}},
      {"verify/requests",
       {"sim", "verify/output", "verify/recordings", "verify/run_arguments", "verify/vocabulary",
        "verify/megatron_rules"}},
      {"verify/cases", {"sim", "verify/reference"}},
      {"verify/faults", {"sim", "verify/vocabulary"}},
      {"verify/properties", {"sim", "verify/reference", "verify/cases", "verify/faults"}},
      {"verify/explain",
       {"sim", "verify/reference", "verify/output", "verify/cases", "verify/faults", "verify/properties"}},
      {"verify/campaign",
       {"sim", "verify/vocabulary", "verify/requests", "verify/cases", "verify/properties",
        "verify/explain"}},
      {"verify/exam",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases", "verify/faults",
        "verify/properties", "verify/explain", "verify/campaign"}},
      {"verify/backends",
       {"sim", "gpu", "verify/output", "verify/requests", "verify/cases", "verify/properties"}},
      {"verify/checks",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases", "verify/faults",
        "verify/properties", "verify/explain", "verify/campaign"}},
      {"verify/memory",
       {"sim", "verify/output", "verify/run_arguments", "verify/vocabulary", "verify/megatron_rules",
        "verify/requests", "verify/checks"}},
      {"verify/full_size",
       {"sim", "verify/reference", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases",
        "verify/checks", "verify/memory"}},
      {"verify/sweep",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/memory", "verify/full_size"}},
      {"verify/replay",
       {"sim", "verify/output", "verify/vocabulary", "verify/requests", "verify/cases", "verify/faults",
        "verify/properties", "verify/backends", "verify/checks", "verify/memory", "verify/full_size"}},
      {"verify/recorded_job", {"sim", "verify/output", "verify/recordings", "verify/checks"}},
      {"verify/inspect",
       {"sim", "verify/output", "verify/recordings", "verify/checks", "verify/recorded_job"}},
      {"verify/views", {"sim", "verify/output", "verify/megatron_rules"}},
      {"verify/report",
       {"sim", "verify/output", "verify/requests", "verify/backends", "verify/checks", "verify/memory",
        "verify/sweep", "verify/replay", "verify/views"}},
      {"verify/run",
       {"sim", "verify/output", "verify/run_arguments", "verify/vocabulary", "verify/megatron_rules",
        "verify/requests", "verify/faults", "verify/checks", "verify/full_size"}},
      {"verify/program",
       {"sim",
        "verify/output",
        "verify/recordings",
        "verify/vocabulary",
        "verify/megatron_rules",
        "verify/requests",
        "verify/cases",
        "verify/faults",
        "verify/properties",
        "verify/campaign",
        "verify/exam",
        "verify/backends",
        "verify/checks",
        "verify/memory",
        "verify/full_size",
        "verify/sweep",
        "verify/replay",
        "verify/recorded_job",
        "verify/inspect",
        "verify/views",
        "verify/report",
        "verify/run"}},
      {"verify", {"sim", "verify"}},
      {"tests", {"tests", "verify", "gpu", "sim"}},
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

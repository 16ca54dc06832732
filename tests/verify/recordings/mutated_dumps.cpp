#include "tests/verify/recordings/mutated_dumps.h"

#include <exception>
#include <random>
#include <vector>

#include "sim/base/error.h"
#include "tests/verify/recordings/test_dump.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/inspection_text.h"
#include "verify/recordings/recording_reader.h"

namespace test {

namespace {

std::vector<std::string> small_dumps() {
  TestDump dump;
  dump.groups = {{"1", "TENSOR_MODEL_PARALLEL_GROUP", {0, 1}}};
  dump.calls = {{.operation = "nccl:all_reduce", .state = "scheduled"}};
  std::vector<std::string> small = {json_of(dump), pickle_of(dump)};
  dump.has_status = false;
  dump.calls = {{.operation = "nccl:recv 0<-1", .sequence = 0, .p2p_sequence = 1, .state = "scheduled"}};
  small.push_back(pickle_of(dump));
  return small;
}

std::vector<std::string> large_dumps() {
  TestDump dump;
  dump.groups = {{"0", "default_pg", {0, 1, 2, 3}}, {"5", "TENSOR_MODEL_PARALLEL_GROUP", {0, 1}}};
  dump.calls = {
      {.operation = "nccl:all_reduce"},
      {.group = 1, .operation = "nccl:_all_gather_base", .sequence = 70000, .elements = 1 << 20},
      {.group = 1, .operation = "nccl:coalesced", .sequence = 70000},
      {.group = 1, .operation = "gloo:send 0->1", .sequence = 0, .p2p_sequence = 3, .state = "scheduled"},
      {.operation = "nccl:all_to_all", .sequence = 2, .state = "started"}};
  std::vector<std::string> large = {json_of(dump), pickle_of(dump)};
  dump.name_of_frame = "forward";
  large.push_back(pickle_of(dump));
  return large;
}

constexpr std::string_view kBytes = "\x80\x02\x86\x88\x89\x8a().}]ueXqrhjJKMGN0aR\"{}[]:,\\-1";

void change(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const std::size_t at = below(bytes.size() + 1);
  switch (below(7)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes.insert(at, 1, kBytes[below(kBytes.size())]);
      break;
    case 2:
      bytes.erase(at, 1 + below(8));
      break;
    case 3:
      bytes.resize(at);
      break;
    case 4: {
      const std::string part = bytes.substr(at, below(64));
      bytes.insert(below(bytes.size() + 1), part);
      break;
    }
    case 5:
      if (at < bytes.size()) bytes[at] = kBytes[below(kBytes.size())];
      break;
    default:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
      break;
  }
}

std::string mutated_dump(const std::vector<std::string>& valid, std::mt19937_64& random) {
  if (random() % 16 == 0) {
    std::string bytes = "\x80\x02";
    for (std::size_t i = random() % 256; i > 0; --i) bytes += kBytes[random() % kBytes.size()];
    return bytes;
  }
  std::string bytes = valid[random() % valid.size()];
  for (std::size_t changes = 1 + random() % 6; changes > 0; --changes) change(bytes, random);
  return bytes;
}

}  // namespace

std::vector<std::string> mutated_job(std::uint64_t seed) {
  static const std::vector<std::string> large = large_dumps(), small = small_dumps();
  std::mt19937_64 random(seed);
  if (random() % 8 == 0) return {mutated_dump(large, random)};
  std::vector<std::string> job = {mutated_dump(small, random)};
  if (random() % 4 == 0) job.push_back(mutated_dump(small, random));
  return job;
}

std::string problem_of_inspecting(const std::vector<std::string>& job, bool& was_read) {
  was_read = false;
  try {
    verify::SharedRanks lists;
    verify::ValueTree tree;
    verify::Recordings recordings;
    for (const std::string& bytes : job) {
      std::optional<verify::Recording> recording = verify::recording_of(bytes, "dump_0", lists, tree);
      if (!recording) continue;
      recording->rank = static_cast<int>(recordings.ranks.size());
      recordings.ranks.push_back(*std::move(recording));
    }
    was_read = recordings.ranks.size() == job.size();
    if (recordings.ranks.empty()) return "";
    const verify::Inspection inspection = verify::inspect(std::move(recordings), {}, true);
    const std::string text =
        verify::inspection_text(inspection, 100) + verify::one_line(verify::inspection_json(inspection));
    return inspection.verdict.empty() ? "no verdict in " + text : "";
  } catch (const sim::Error& error) {
    const sim::Refusal& refusal = error.refusal();
    const bool is_whole = !refusal.code.empty() && refusal.option == "dump_0" && !refusal.rule.empty();
    return is_whole ? "" : "a refusal without its parts: " + std::string(error.what());
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace test

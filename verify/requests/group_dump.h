#pragma once

/// The process groups of a running job, as a file gives them. The content tells which form the file has:
///
///   shardproof       what `groups --format json` prints: an object with "groups", by kind
///   list             [["TENSOR_MODEL_PARALLEL_GROUP", [0, 1]], ...], which sim/layout/README.md shows how to
///                    print from a job
///   flight_recorder  a dump of PyTorch's flight recorder, a pickle or JSON, whose "pg_config" is taken;
///                    it is read as `inspect` reads it (verify/recordings)
///
/// PyTorch's default group gives the size of the job's world, and is no group of a kind.
///
/// Errors  dump_missing: there is nothing of this name, or no plain file; dump_size: a file of more than
///         kMostDumpBytes; dump_text: a file that is neither a pickle nor JSON; dump_form: a file in none of
///         the forms; dump_empty: a dump without groups; dump_ranks: a group with a rank outside of the world
///         that the dump says, with the same rank twice, or without ranks; dump_repeated: a group that a
///         shardproof document or a list has twice; those of verify/recordings/pickle_reader.h. The command
///         groups adds dump_rank: --rank with another rank than that of the dump.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verify {

inline constexpr std::size_t kMostDumpBytes = std::size_t{16} << 20U;

enum class DumpForm { shardproof, list, flight_recorder };

/// Returns "shardproof", "list" or "flight_recorder".
const char* dump_form_name(DumpForm form);

struct DumpedGroup {
  std::string description;  // Megatron's or, in a shardproof document, the kind
  std::vector<int> ranks;   // in the order of the dump
};

struct GroupDump {
  std::string path;
  DumpForm form = DumpForm::list;
  std::vector<DumpedGroup> groups;         // without the default group
  std::optional<std::int64_t> world_size;  // where the dump says it
  std::optional<std::int64_t> rank;        // of a shardproof document about one rank
  /// Whether a group that is not in the dump may exist all the same. A flight recorder knows only the groups
  /// in which its rank has communicated.
  bool is_partial() const { return form == DumpForm::flight_recorder; }
};

GroupDump read_group_dump(const std::string& path);

}  // namespace verify

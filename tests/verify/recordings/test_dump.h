#pragma once

/// A dump as a test writes it, as JSON and as a pickle in the opcodes of c10's pickler. Nothing is shared
/// with the writer of the program (verify/recordings): the fields are those that PyTorch has.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace test {

struct DumpedTestGroup {
  std::string name;
  std::string description;
  std::vector<int> ranks;
};

struct DumpedTestCall {
  std::size_t group = 0;  // index into the groups of the dump
  std::string operation;  // "nccl:all_reduce", "nccl:send 0->1"
  std::int64_t sequence = 1;
  std::int64_t p2p_sequence = 0;
  std::int64_t elements = 4;
  std::string state = "completed";
  std::string dtype = "Float";
  bool is_retired = false;
  std::int64_t output_elements = -1;  // -1: as many as go in
  std::int64_t record_id = -1;        // -1: its place in the list
  std::int64_t late_ns = 0;           // how long after the time of its place it was issued
};

struct TestDump {
  int rank = 0;
  std::string version = "2.10";
  std::vector<DumpedTestGroup> groups;
  std::vector<DumpedTestCall> calls;
  bool has_status = true;
  bool is_active_only = false;  // whether completed calls are left out
  std::string name_of_frame;    // "": no stacks
};

std::string json_of(const TestDump& dump);
std::string pickle_of(const TestDump& dump);

}  // namespace test

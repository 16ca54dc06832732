// Guests do what the same programs do as fibers: drawn programs, right and wrong, have equal reports. And guests
// that die, hang up, lie or send half a frame are named.

#include <algorithm>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/guest/guest_program.h"
#include "sim/guest/guest_request.h"
#include "sim/tensor/float_arithmetic.h"
#include "sim/world/simulate.h"
#include "tests/support/guest_client.h"

namespace {

using namespace sim;
using nlohmann::json;

constexpr std::size_t kSegment = 1 << 16;
constexpr const char* kFile = "train.py";

/// One call of a rank in the world's group, or in the group that the ranks below `few` have made.
struct Step {
  Operation operation = Operation::barrier;
  DType dtype = DType::f32;
  std::int64_t count = 1;
  ReduceOp reduce_op = ReduceOp::sum;
  int root = 0;
  bool in_few = false;
  int line = 1;
};
using Program = std::vector<std::vector<Step>>;  // of each rank

struct Drawn {
  int ranks = 2;
  int few = 1;  // ranks 0 to few - 1 make a group of their own
  Program program;
};

const char* site_name(const Step& step) { return step.in_few ? "inner" : "outer"; }

/// The elements that a rank gives in a step: whole numbers, which every dtype has.
std::vector<std::byte> values(DType dtype, std::int64_t count, int rank, int line) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_of(dtype)));
  with_any_scalar(is_reducible(dtype) ? dtype : DType::u8, [&]<typename Scalar>(Scalar) {
    if constexpr (!std::is_same_v<Scalar, Field>) {
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = static_cast<double>((rank * 5 + line * 3 + i) % 11);
        Scalar scalar = {};
        if constexpr (ShortFloat<Scalar>) {
          scalar = short_of<Scalar>(static_cast<float>(value));
        } else {
          scalar = static_cast<Scalar>(value);
        }
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(scalar), &scalar, sizeof(scalar));
      }
    }
  });
  return bytes;
}

/// The number of elements that the operation takes and gives, in units of the step's count.
struct Blocks {
  std::int64_t input = 0, output = 0;  // 0: there is none
};
Blocks blocks_of(const Step& step, int members, bool is_root) {
  switch (step.operation) {
    case Operation::all_gather:
      return {1, members};
    case Operation::reduce_scatter:
      return {members, 1};
    case Operation::all_to_all:
      return {members, members};
    case Operation::gather:
      return {1, is_root ? members : 0};
    case Operation::scatter:
      return {is_root ? members : 0, 1};
    case Operation::barrier:
      return {};
    default:
      return {0, 1};
  }
}

// ---- the two ways of running a program

void run_step(Rank& rank, Communicator& group, const Step& step) {
  const Blocks blocks = blocks_of(step, group.size(), group.rank() == step.root);
  const auto tensor = [&](std::int64_t number) {
    if (number == 0) return Tensor();
    const std::int64_t count = number * step.count;
    return from_host(rank.device, step.dtype, {count}, values(step.dtype, count, rank.id, step.line));
  };
  const Tensor input = tensor(blocks.input), output = tensor(blocks.output);
  const Site site = Site::at(site_name(step), kFile, step.line);
  const auto work = [&] {
    switch (step.operation) {
      case Operation::all_reduce:
        return group.start_all_reduce(output, step.reduce_op, site);
      case Operation::reduce_scatter:
        return group.start_reduce_scatter(input, output, step.reduce_op, site);
      case Operation::all_gather:
        return group.start_all_gather(input, output, site);
      case Operation::all_to_all:
        return group.start_all_to_all(input, output, site);
      case Operation::broadcast:
        return group.start_broadcast(output, step.root, site);
      case Operation::reduce:
        return group.start_reduce(output, step.reduce_op, step.root, site);
      case Operation::gather:
        return group.start_gather(input, output, step.root, site);
      case Operation::scatter:
        return group.start_scatter(input, output, step.root, site);
      default:
        return group.start_barrier(site);
    }
  };
  Work started = work();
  started.wait();
  if (!output.is_none()) rank.publish("step", output);
}

std::vector<int> few_members(const Drawn& drawn) {
  std::vector<int> members;
  for (int rank = 0; rank < drawn.few; ++rank) members.push_back(rank);
  return members;
}

RankProgram as_fibers(const Drawn& drawn) {
  return [&drawn](Rank& rank) {
    Communicator* few = rank.groups.new_group("few", few_members(drawn), Site::at("groups", kFile, 1));
    for (const Step& step : drawn.program[static_cast<std::size_t>(rank.id)])
      run_step(rank, step.in_few ? *few : rank.groups.world(), step);
  };
}

json site_of(const char* name, int line) { return {name, kFile, line}; }

/// Puts elements into the segment, and says where they lie.
json put(const test::GuestClient& client, const Step& step, int rank, std::int64_t number,
         std::size_t offset) {
  if (number == 0) return nullptr;
  const std::int64_t count = number * step.count;
  const std::vector<std::byte> bytes = values(step.dtype, count, rank, step.line);
  std::ranges::copy(bytes, client.memory().subspan(offset).begin());
  return {name_of(step.dtype), offset, count};
}

void play_step(test::GuestClient& client, const Drawn& drawn, const Step& step, int rank, std::size_t few) {
  const Blocks blocks = blocks_of(step, step.in_few ? drawn.few : drawn.ranks, rank == step.root);
  const json output = put(client, step, rank, blocks.output, kSegment / 2);
  const json site = site_of(site_name(step), step.line);
  json request = {{"do", "call"},
                  {"operation", name_of(step.operation)},
                  {"group", step.in_few ? few : 0},
                  {"site", site},
                  {"input", put(client, step, rank, blocks.input, 0)},
                  {"output", output},
                  {"reduce", name_of(step.reduce_op)}};
  if (has_root(step.operation)) request["root"] = step.root;
  client.ask(request);
  if (!output.is_null()) client.ask({{"do", "publish"}, {"name", "step"}, {"tensor", output}});
}

void play(test::GuestClient& client, const Drawn& drawn, int rank) {
  const json made = client.ask({{"do", "new_group"},
                                {"name", "few"},
                                {"members", few_members(drawn)},
                                {"site", site_of("groups", 1)}});
  const std::size_t few = made["group"].is_null() ? 0 : made["group"].get<std::size_t>();
  for (const Step& step : drawn.program[static_cast<std::size_t>(rank)])
    play_step(client, drawn, step, rank, few);
  client.ask({{"do", "end"}});
}

/// Runs a world whose ranks are guests, each on a thread of its own.
RunReport run_guests(const WorldSpec& spec, int ranks,
                     const std::function<void(test::GuestLink&, int rank)>& guest) {
  std::vector<std::unique_ptr<test::GuestLink>> links;
  std::vector<GuestEnd> ends;
  for (int rank = 0; rank < ranks; ++rank)
    ends.push_back(links.emplace_back(std::make_unique<test::GuestLink>())->end());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        guest(*links[static_cast<std::size_t>(rank)], rank);
      } catch (const std::exception&) {
        // The world has ended, and the report says why.
      }
    });
  }
  CpuDevice device;
  GuestRecord record;
  RunReport report = simulate(spec, device, guest_program(ends, record));
  for (auto& link : links) link->end_of_rank();
  for (std::thread& thread : threads) thread.join();
  return report;
}

RunReport run_as_guests(const WorldSpec& spec, const Drawn& drawn) {
  return run_guests(spec, drawn.ranks, [&](test::GuestLink& link, int rank) {
    test::GuestClient client(link, kSegment);
    play(client, drawn, rank);
  });
}

// ---- drawn programs

Step drawn_step(const Drawn& drawn, int line) {
  Step step;
  step.operation = *rc::gen::element(Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                     Operation::all_to_all, Operation::broadcast, Operation::reduce,
                                     Operation::gather, Operation::scatter, Operation::barrier);
  step.dtype = *rc::gen::suchThat(
      rc::gen::elementOf(std::vector<DType>(std::begin(kGuestDTypes), std::end(kGuestDTypes))),
      [&](DType dtype) { return is_reducible(dtype) || !has_reduce_op(step.operation); });
  step.count = *rc::gen::inRange(1, 40);
  step.reduce_op =
      *rc::gen::element(ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::product, ReduceOp::average);
  step.in_few = *rc::gen::arbitrary<bool>();
  step.root = *rc::gen::inRange(0, step.in_few ? drawn.few : drawn.ranks);
  step.line = line;
  return step;
}

Drawn drawn_program() {
  Drawn drawn;
  drawn.ranks = *rc::gen::inRange(1, 6);
  drawn.few = *rc::gen::inRange(1, drawn.ranks + 1);
  drawn.program.resize(static_cast<std::size_t>(drawn.ranks));
  const int steps = *rc::gen::inRange(0, 8);
  for (int line = 2; line < steps + 2; ++line) {
    const Step step = drawn_step(drawn, line);
    for (int rank = 0; rank < (step.in_few ? drawn.few : drawn.ranks); ++rank)
      drawn.program[static_cast<std::size_t>(rank)].push_back(step);
  }
  return drawn;
}

/// Makes one rank leave out a call, or make another one.
void spoil(Drawn& drawn) {
  std::vector<Step>& steps = drawn.program[*rc::gen::inRange<std::size_t>(0, drawn.program.size())];
  if (steps.empty()) return;
  const auto at = *rc::gen::inRange<std::size_t>(0, steps.size());
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1:
      ++steps[at].count;
      return;
    case 2:
      steps[at].dtype = DType::i64;
      return;
    default:
      steps[at].operation = Operation::barrier;
  }
}

std::string text_of_all(const RunReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += text_of(finding, "") + "\n";
  return text;
}

RC_GTEST_PROP(Guests, DoWhatFibersDo, ()) {
  Drawn drawn = drawn_program();
  if (*rc::gen::arbitrary<bool>()) spoil(drawn);
  WorldSpec spec = world_of(drawn.ranks);
  CpuDevice device;
  const RunReport fibers = simulate(spec, device, as_fibers(drawn));
  spec.schedule.policy =
      *rc::gen::element(SchedulePolicy::round_robin, SchedulePolicy::uniform, SchedulePolicy::pct);
  spec.schedule.seed = *rc::gen::arbitrary<std::uint64_t>();
  const RunReport guests = run_as_guests(spec, drawn);
  RC_ASSERT(text_of_all(guests) == text_of_all(fibers));
  RC_ASSERT(guests.run_hash == fibers.run_hash);
  RC_ASSERT(guests.ledger.size() == fibers.ledger.size());
}

// ---- guests that do not do what they should

/// What is found of a world of two guests, of which rank 1 does something else after its first barrier.
std::string found(const std::function<void(test::GuestClient& client, test::GuestLink& link)>& other) {
  const json barrier = {{"do", "call"}, {"operation", "barrier"}, {"site", site_of("loop", 7)}};
  const RunReport report = run_guests(world_of(2), 2, [&](test::GuestLink& link, int rank) {
    test::GuestClient client(link, kSegment);
    client.ask(barrier);
    if (rank == 1) return other(client, link);
    client.ask(barrier);
    client.ask({{"do", "end"}});
  });
  return report.findings.empty() ? "" : text_of(report.findings.front(), "");
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Guests, ThatEndEarlyAreNamed) {
  const std::string text = found([](auto& client, auto&) { client.ask({{"do", "end"}}); });
  EXPECT_TRUE(has(text, "'loop' (train.py:7)")) << text;
  EXPECT_TRUE(has(text, "rank 1")) << text;
}

TEST(Guests, ThatRaiseAreNamedWithTheirText) {
  const std::string text = found([](auto& client, auto&) {
    client.ask({{"do", "raised"}, {"text", "ValueError: 3 heads (train.py:12)"}});
  });
  EXPECT_TRUE(has(text, "guest_raised")) << text;
  EXPECT_TRUE(has(text, "ValueError: 3 heads (train.py:12)")) << text;
}

TEST(Guests, ThatEndByARefusalAreNamedWithTheirCall) {
  const std::string text = found([](auto& client, auto&) {
    EXPECT_ANY_THROW(client.ask({{"do", "call"},
                                 {"operation", "broadcast"},
                                 {"site", {"loop", "train.py", 8}},
                                 {"root", 7},
                                 {"output", {"f32", 0, 4}}}));
    client.ask({{"do", "raised"}, {"text", "Refused: call_root"}, {"refused", true}});
  });
  EXPECT_TRUE(has(text, "call_root: rank 1: ")) << text;
  EXPECT_TRUE(has(text, "'loop' (train.py:8)")) << text;
  EXPECT_FALSE(has(text, "guest_raised")) << text;
}

TEST(Guests, ThatOnlySayThatTheyWereRefusedHaveRaised) {
  const std::string text = found([](auto& client, auto&) {
    client.ask({{"do", "raised"}, {"text", "Refused: call_root"}, {"refused", true}});
  });
  EXPECT_TRUE(has(text, "guest_raised")) << text;
}

TEST(Guests, ThatAreGoneAreNamed) {
  const std::string text = found([](auto&, auto& link) { link.hang_up(); });
  EXPECT_TRUE(has(text, "guest_gone")) << text;
  EXPECT_TRUE(has(text, "guest_gone: rank 1: its process: it is gone after 1 requests")) << text;
}

TEST(Guests, ThatSendHalfAFrameAreNamed) {
  const std::string text = found([](auto& client, auto& link) {
    client.write("SPG1\x01");
    link.hang_up();
  });
  EXPECT_TRUE(has(text, "gone after 5 bytes of request 1")) << text;
}

TEST(Guests, ThatSendNoFrameAreNamed) {
  const std::string text = found([](auto& client, auto&) { client.write("GET / HTTP/1.1\r\n\r\n"); });
  EXPECT_TRUE(has(text, "guest_frame")) << text;
  EXPECT_TRUE(has(text, "guest_frame: rank 1: its process: its frame 1 begins with 0x20544547")) << text;
}

TEST(Guests, EqualCallsAtDifferentLinesAreAWarning) {
  WorldSpec spec = world_of(2);
  const RunReport report = run_guests(spec, 2, [&](test::GuestLink& link, int rank) {
    test::GuestClient client(link, kSegment);
    for (const int line : {5 + rank, 8})
      client.ask({{"do", "call"}, {"operation", "barrier"}, {"site", site_of("loop", line)}});
    client.ask({{"do", "end"}});
  });
  EXPECT_TRUE(report.ok());
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_EQ(report.warnings[0].code, "other_lines");
  EXPECT_EQ(report.warnings[0].calls[0].line, 5);
  EXPECT_EQ(report.warnings[0].calls[1].line, 6);
}

/// A request that is none is answered by a refusal, and the guest that goes on is not lost.
TEST(Guests, ThatLieAreRefusedByName) {
  const std::pair<const char*, const char*> kLies[] = {
      {R"([])", "guest_request"},
      {R"([])", "a JSON object"},
      {R"({"do": "dance"})", "one of call, batch"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f32", 0, -1]})", "a whole number from 0"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f32", 0, 1e9]})", "a whole number from 0"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f8", 0, 1]})", "one of f64, f32"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f32", 0, 100000]})", "guest_memory"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f32", 1099511627775, 1099511627776]})",
       "guest_memory"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f32", 2, 1]})", "the middle of an element"},
      {R"({"do": "call", "operation": "all_reduce"})", "works in place"},
      {R"({"do": "call", "operation": "all_reduce", "output": ["f8e4m3", 0, 1]})", "only moved"},
      {R"({"do": "call", "operation": "barrier", "group": 5})", "a member of"},
      {R"({"do": "call", "operation": "broadcast", "root": 2, "output": ["f32", 0, 1]})", "call_root"},
      {R"({"do": "wait", "call": 9})", "waited for once"},
      {R"({"do": "tell", "text": 7})", "a text"},
      {R"({"do": "publish", "name": "x", "tensor": ["f64", 0, 1], "place": 7})", "a JSON object"},
      {R"({"do": "publish", "name": "x", "tensor": ["f64", 0, 1],
           "place": {"kind": "norm", "step": 0, "whole": [1], "offset": [0], "shape": [1, 1], "begin": 0}})",
       "of as many dimensions"},
      {R"({"do": "publish", "name": "x", "tensor": ["f64", 0, 1],
           "place": {"kind": "norm", "step": 0, "whole": [3], "offset": [2], "shape": [2], "begin": 0}})",
       "a block that lies in the whole"},
      {R"({"do": "publish", "name": "x", "tensor": ["f64", 0, 2],
           "place": {"kind": "norm", "step": 0, "whole": [3], "offset": [0], "shape": [2], "begin": 1}})",
       "a block that has all elements"},
      {R"({"do": "publish", "name": "x", "tensor": ["f64", 0, 1], "place": {"kind": "norm", "step": 0,
           "whole": [268435456, 268435456, 268435456], "offset": [0, 0, 0], "shape": [1, 1, 1], "begin": 0}})",
       "a whole of at most"},
      {R"({"do": "batch", "calls": []})", "sends and receives"},
  };
  for (const auto& [body, part] : kLies) {
    std::string said;
    const std::string text = found([&](auto& client, auto&) {
      client.write_frame(body);
      said = client.read_answer().dump();
      client.ask({{"do", "call"}, {"operation", "barrier"}, {"site", site_of("loop", 7)}});
      client.ask({{"do", "end"}});
    });
    EXPECT_TRUE(has(said, part)) << body << "\n" << said;
    EXPECT_EQ(text, "") << body;
  }
}

}  // namespace

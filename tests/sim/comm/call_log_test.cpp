// Proves that a log of calls reads as the list of the records that were added, whatever calls share a form.

#include "sim/comm/call_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <tuple>
#include <vector>

#include "sim/comm/recorder.h"

namespace {

using namespace sim;

auto contents_of(const CallRecord& call) {
  return std::tuple(call.group, call.site.name, call.site.file, call.site.line, call.sequence, call.count,
                    call.bytes_inside, call.bytes_across, call.root_or_peer, call.operation, call.dtype,
                    call.reduce_op, call.waited);
}

/// Draws a record of few values, so that many records have a form in common and others differ in one value.
CallRecord drawn_record(const std::vector<ProcessGroup>& groups) {
  const auto is_other = [] { return *rc::gen::weightedElement<int>({{6, 0}, {1, 1}}); };
  const std::vector<Site> sites = {"one", "two"};
  CallRecord call{.group = &groups[static_cast<std::size_t>(is_other())],
                  .site = sites[static_cast<std::size_t>(is_other())],
                  .sequence = *rc::gen::inRange<std::int64_t>(0, 1000),
                  .count = *rc::gen::inRange<std::int64_t>(0, 40),
                  .bytes_inside = is_other(),
                  .bytes_across = is_other(),
                  .root_or_peer = is_other(),
                  .operation = is_other() == 0 ? Operation::all_reduce : Operation::reduce,
                  .dtype = is_other() == 0 ? DType::f32 : DType::f64,
                  .reduce_op = is_other() == 0 ? ReduceOp::sum : ReduceOp::max,
                  .waited = *rc::gen::arbitrary<bool>()};
  call.site.line += is_other();
  return call;
}

RC_GTEST_PROP(CallLog, ReadsAsTheRecordsThatWereAdded, ()) {
  const std::vector<ProcessGroup> groups(2);
  CallLog log;
  std::vector<CallRecord> records;
  const auto calls = *rc::gen::inRange<std::size_t>(0, 100);
  for (std::size_t i = 0; i < calls; ++i) {
    records.push_back(drawn_record(groups));
    log.push_back(records.back());
    const auto waited = *rc::gen::inRange<std::size_t>(0, records.size());
    records[waited].waited = true;
    log.set_waited(waited);
  }
  RC_ASSERT(log.size() == records.size());
  RC_ASSERT(log.forms().size() <= records.size());
  std::size_t number = 0, not_waited_for = 0;
  for (const CallRecord& call : log) {
    RC_ASSERT(contents_of(call) == contents_of(records[number]));
    RC_ASSERT(contents_of(log[number]) == contents_of(call));
    RC_ASSERT(log.was_waited_for(number) == call.waited);
    not_waited_for += call.waited ? 0U : 1U;
    ++number;
  }
  RC_ASSERT(number == records.size());
  RC_ASSERT(log.not_waited_for() == not_waited_for);
  const auto first = *rc::gen::inRange<std::size_t>(0, records.size() + 1);
  std::size_t seen = 0;
  log.for_first(first, [&](std::size_t form, std::int64_t sequence) {
    RC_ASSERT(sequence == records[seen].sequence);
    RC_ASSERT(log.forms()[form].count == records[seen].count);
    RC_ASSERT(log.forms()[form].site.name == records[seen].site.name);
    ++seen;
  });
  RC_ASSERT(seen == first);
}

/// Of a call that is remembered, the record is that which push_back() would have added.
RC_GTEST_PROP(CallLog, RemembersTheFormOfACallThatComesAgain, ()) {
  const std::vector<ProcessGroup> groups(2);
  CallLog log;
  std::vector<CallRecord> records;
  for (int i = 0; i < 60; ++i) {
    CallRecord record = drawn_record(groups);
    record.bytes_inside = record.count;  // as traffic_of() has it, bytes follow from the other values
    record.bytes_across = record.root_or_peer;
    record.waited = false;
    Call call(record.operation, record.site);
    call.reduce_op = record.reduce_op;
    call.root = has_root(record.operation) ? record.root_or_peer : -1;
    call.peer = has_root(record.operation) ? -1 : record.root_or_peer;
    call.count = record.count;
    call.dtype = record.dtype;
    call.sequence = record.sequence;
    call.key = record.key();
    if (!log.add_known(call, *record.group)) log.push_back(record);
    records.push_back(record);
  }
  for (std::size_t i = 0; i < records.size(); ++i) RC_ASSERT(contents_of(log[i]) == contents_of(records[i]));
}

TEST(CallLog, KeepsOneFormOfCallsThatAreAlike) {
  const ProcessGroup group;
  CallLog log;
  for (std::int64_t sequence = 0; sequence < 100; ++sequence)
    log.push_back({.group = &group, .site = "loop", .sequence = sequence, .count = 4, .root_or_peer = -1});
  EXPECT_EQ(log.forms().size(), 1U);
  log.remove_first(99);
  EXPECT_EQ(log.size(), 1U);
  EXPECT_EQ(log.back().sequence, 99);
}

/// Programs that run long make calls of ever other sizes. A recorder that keeps the latest calls needs no
/// more memory for them as time goes by.
TEST(Recorder, ForgetsTheFormsOfCallsThatItNoLongerKeeps) {
  constexpr std::int64_t kKept = 8;
  const ProcessGroup group{"dp", 0, {0, 1}};
  Recorder recorder(
      1'000'000, [] { FAIL(); }, kMostPublishedBytes, kKept);
  std::size_t most = 0;
  for (std::int64_t number = 0; number < 5000; ++number) {
    Call call(Operation::barrier, "loop");
    call.count = number;
    call.sequence = number;
    call.key = {call.operation, call.dtype, call.reduce_op, root_or_peer_of(call), number};
    recorder.set_waited(recorder.add(call, group, 0));
    most = std::max(most, recorder.calls().forms().size());
    ASSERT_EQ(recorder.calls().back().count, number);
  }
  EXPECT_EQ(recorder.number_of_calls(), 5000);
  EXPECT_LT(most, 200U);
}

}  // namespace

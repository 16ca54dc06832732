// Proves what calls of a training look like, from their groups, operations and sizes and the calls before them.

#include "verify/recorded_job/call_meaning.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/verify/inspect/hung_job.h"
#include "verify/recorded_job/job.h"

namespace {

using test::TestDump;

/// What the calls of a rank look like, in a group of data parallelism (0), of its model (1) or of experts (2).
std::vector<std::string> meanings_of(std::vector<test::DumpedTestCall> calls) {
  TestDump dump;
  dump.groups = {{"1", "DATA_PARALLEL_GROUP_WITH_CP", {0, 1}},
                 {"2", "MODEL_PARALLEL_GROUP", {0, 2}},
                 {"3", "EXPERT_MODEL_PARALLEL_GROUP", {0, 3}}};
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i].sequence = static_cast<std::int64_t>(i) + 1;
  dump.calls = std::move(calls);
  const verify::Job job = verify::job_of(test::recordings_of({dump}));
  std::vector<std::string> meanings;
  for (std::size_t i = 0; i < dump.calls.size(); ++i)
    meanings.push_back(verify::call_meaning(job.call_at(0, i)).text);
  return meanings;
}

TEST(CallMeaning, CountsTheBucketsOfAStep) {
  const test::DumpedTestCall bucket = {.operation = "nccl:_reduce_scatter_base", .elements = 4096};
  const test::DumpedTestCall norm = {.group = 1, .operation = "nccl:all_reduce", .elements = 1};
  const test::DumpedTestCall gather = {.operation = "nccl:_all_gather_base", .elements = 4096};
  EXPECT_EQ(
      meanings_of(
          {bucket, norm, gather, gather, bucket, bucket, bucket, norm, gather, gather, bucket, bucket}),
      (std::vector<std::string>{"the reduce-scatter of a gradient bucket (distributed optimizer)",
                                "the norm of the gradients, or the search for an overflow",
                                "the gather of parameter bucket 1 (distributed optimizer)",
                                "the gather of parameter bucket 2 (distributed optimizer)",
                                "the reduce-scatter of gradient bucket 1 (distributed optimizer)",
                                "the reduce-scatter of gradient bucket 2 (distributed optimizer)",
                                "the reduce-scatter of gradient bucket 3 (distributed optimizer)",
                                "the norm of the gradients, or the search for an overflow",
                                "the gather of parameter bucket 1 of 2 (distributed optimizer)",
                                "the gather of parameter bucket 2 of 2 (distributed optimizer)",
                                "the reduce-scatter of gradient bucket 1 of 3 (distributed optimizer)",
                                "the reduce-scatter of gradient bucket 2 of 3 (distributed optimizer)"}));
}

TEST(CallMeaning, ASumOfFewElementsIsALoss) {
  const test::DumpedTestCall bucket = {.operation = "nccl:all_reduce", .elements = 4096};
  const test::DumpedTestCall loss = {.operation = "nccl:all_reduce", .elements = 2};
  EXPECT_EQ(meanings_of({loss, bucket, bucket}),
            (std::vector<std::string>{"the sum of a loss or of a count", "the sum of gradient bucket 1",
                                      "the sum of gradient bucket 2"}));
}

TEST(CallMeaning, SizesTellACombineFromADispatch) {
  const auto exchange = [](std::int64_t in, std::int64_t out) {
    return test::DumpedTestCall{
        .group = 2, .operation = "nccl:all_to_all", .elements = in, .output_elements = out};
  };
  const std::string unknown = "the dispatch or combine of tokens to experts";
  const std::string dispatch = "the dispatch of tokens to experts";
  const std::string combine = "the combine of tokens from experts";
  EXPECT_EQ(meanings_of({exchange(64, 80), exchange(80, 64), exchange(64, 72), exchange(72, 64)}),
            (std::vector<std::string>{unknown, combine, dispatch, combine}));
  EXPECT_EQ(meanings_of({exchange(64, 64), exchange(64, 64)}), (std::vector<std::string>{unknown, unknown}));
}

}  // namespace

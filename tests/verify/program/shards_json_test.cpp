// Proves that the JSON of a gradient buffer is written a little at a time, however many ranks own it. What
// it says is proven against Megatron by oracle_test.cpp.

#include <algorithm>
#include <gtest/gtest.h>
#include <sstream>
#include <streambuf>

#include "tests/support/run.h"
#include "verify/output/json.h"
#include "verify/program/program.h"

namespace {

/// Counts what is written to it, and keeps nothing.
class Counter : public std::streambuf {
 public:
  std::streamsize bytes = 0;
  std::streamsize largest = 0;  // bytes of one write

 protected:
  std::streamsize xsputn(const char*, std::streamsize count) override {
    bytes += count;
    largest = std::max(largest, count);
    return count;
  }
  int_type overflow(int_type c) override {
    ++bytes;
    return c;
  }
};

TEST(ShardsJson, JsonOfManyRanksIsWrittenALittleAtATime) {
  Counter counter;
  std::ostream out(&counter);
  std::ostringstream err;
  EXPECT_EQ(verify::run_program(
                {"shards", "--param-sizes", "1000,70", "--data-parallel-size", "200000", "--format", "json"},
                {out, err}),
            0)
      << err.str();
  EXPECT_GT(counter.bytes, 3 * 200'000);
  EXPECT_LT(counter.largest, 1 << 18);
}

TEST(ShardsJson, JsonIsOneDocument) {
  const auto result = test::run("shards --param-sizes 1000,70 --data-parallel-size 3 --format json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = verify::parsed_json(result.out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->find("rank_maps")->size(), 3U);
  const auto plain = test::run("shards --param-sizes 1000,70 --no-distributed-optimizer --format json");
  ASSERT_TRUE(verify::parsed_json(plain.out)) << plain.out;
  EXPECT_EQ(verify::parsed_json(plain.out)->find("rank_maps"), nullptr);
}

}  // namespace

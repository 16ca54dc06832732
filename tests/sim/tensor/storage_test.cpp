// Proves which accesses a storage refuses while calls that read or write it are in flight, and that it
// returns its block to the pool.

#include "sim/tensor/storage.h"

#include <array>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <string>

#include "tests/support/refusal_code.h"

namespace {

using sim::Access;
using sim::ByteRange;
using sim::Storage;

class StorageFlights : public ::testing::Test {
 protected:
  std::string code(ByteRange range, Access access) const {
    return test::refusal_code([&] { storage_.require_access(range, access, "user"); });
  }
  Storage storage_{std::make_shared<sim::MemoryPool>(), 0, 100};
};

TEST_F(StorageFlights, AReadForbidsWritesOnly) {
  storage_.take_off({20, 40}, Access::read, "reader");
  EXPECT_EQ(code({0, 100}, Access::read), "none");
  EXPECT_EQ(code({39, 100}, Access::write), "buffer_in_flight_write");
  EXPECT_EQ(code({0, 21}, Access::write), "buffer_in_flight_write");
}

TEST_F(StorageFlights, AWriteForbidsBoth) {
  storage_.take_off({20, 40}, Access::write, "writer");
  EXPECT_EQ(code({39, 100}, Access::read), "buffer_in_flight_read");
  EXPECT_EQ(code({39, 100}, Access::write), "buffer_in_flight_write");
}

TEST_F(StorageFlights, DisjointAndEmptyRangesAreFree) {
  storage_.take_off({20, 40}, Access::write, "writer");
  for (const ByteRange range : {ByteRange{0, 20}, ByteRange{40, 100}, ByteRange{30, 30}}) {
    EXPECT_EQ(code(range, Access::read), "none") << range.begin;
    EXPECT_EQ(code(range, Access::write), "none") << range.begin;
  }
}

TEST_F(StorageFlights, EachLandsAlone) {
  storage_.take_off({0, 10}, Access::read, "one");
  storage_.take_off({0, 10}, Access::read, "two");
  storage_.take_off({10, 20}, Access::write, "three");
  storage_.land({0, 10}, Access::read);
  EXPECT_EQ(code({0, 10}, Access::write), "buffer_in_flight_write");
  storage_.land({0, 10}, Access::read);
  EXPECT_EQ(code({0, 10}, Access::write), "none");
  EXPECT_EQ(code({10, 20}, Access::read), "buffer_in_flight_read");
  storage_.land({10, 20}, Access::write);
  EXPECT_EQ(code({0, 100}, Access::write), "none");
}

TEST_F(StorageFlights, ALongFlightIsSeenToItsEnd) {
  storage_.take_off({0, 50}, Access::write, "long");
  storage_.take_off({60, 61}, Access::write, "short");
  EXPECT_EQ(code({49, 50}, Access::read), "buffer_in_flight_read");
}

TEST_F(StorageFlights, OfTwoThatBeginTogetherTheRightOneLands) {
  storage_.take_off({0, 10}, Access::read, "head");
  storage_.take_off({0, 20}, Access::read, "whole");
  storage_.land({0, 20}, Access::read);
  EXPECT_EQ(code({10, 20}, Access::write), "none");
  EXPECT_EQ(code({0, 10}, Access::write), "buffer_in_flight_write");
}

TEST_F(StorageFlights, TheRefusalNamesTheCallInFlight) {
  storage_.take_off({20, 40}, Access::write, "tp.all_reduce");
  try {
    storage_.require_access({0, 100}, Access::read, "add");
    FAIL();
  } catch (const sim::Error& error) {
    EXPECT_NE(std::string(error.what()).find("'tp.all_reduce'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("storage_test.cpp"), std::string::npos) << error.what();
    EXPECT_EQ(error.refusal().option, "add");
  }
}

RC_GTEST_PROP(ByteRange, OverlapsWhereAByteIsInBoth, ()) {
  const auto any_range = [] {
    const auto begin = *rc::gen::inRange<std::int64_t>(0, 6);
    return ByteRange{begin, begin + *rc::gen::inRange<std::int64_t>(0, 4)};
  };
  const ByteRange a = any_range();
  const ByteRange b = any_range();
  bool shared = false;
  for (std::int64_t i = a.begin; i < a.end; ++i) shared = shared || (b.begin <= i && i < b.end);
  RC_ASSERT(a.overlaps(b) == shared);
}

TEST(Storage, GivesItsBlockBackAsItTookIt) {
  const auto pool = std::make_shared<sim::MemoryPool>();
  for (const std::int64_t bytes : {1, 5000, 100000}) {
    const std::byte* const block = Storage(pool, 5, bytes).data();
    EXPECT_EQ(pool->take(static_cast<std::size_t>(bytes), 5), block) << bytes;
    pool->give_back(const_cast<std::byte*>(block), static_cast<std::size_t>(bytes), 5);
  }
}

TEST(StorageDeathTest, NothingLandsThatDidNotTakeOff) {
  Storage storage(std::make_shared<sim::MemoryPool>(), 0, 8);
  EXPECT_DEATH(storage.land({0, 8}, Access::read), "CHECK");
}

TEST(LentStorage, GivesNothingBackAndKeepsItsOwner) {
  std::array<std::byte, 16> memory = {};
  const auto owner = std::make_shared<int>(1);
  {
    const Storage lent(memory, owner);
    EXPECT_EQ(lent.data(), memory.data());
    EXPECT_EQ(lent.bytes(), 16);
    EXPECT_EQ(owner.use_count(), 2);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace

// Proves that a rank which runs for long without a call is named on standard error, also at SIGQUIT, and that
// the run then goes on.

#include "sim/world/silence.h"

#include <csignal>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

namespace {

using namespace sim;

/// Runs a world whose rank 2 does this between two barriers, and returns what is written meanwhile.
template <typename Wait>
std::string written_by(WorldSpec spec, const Wait& wait) {
  CpuDevice device;
  testing::internal::CaptureStderr();
  const RunReport report = simulate(spec, device, [&](Rank& rank) {
    rank.groups.world().barrier("before");
    if (rank.id == 2) wait();
    rank.groups.world().barrier("after");
  });
  EXPECT_TRUE(report.ok()) << report.failure();
  return testing::internal::GetCapturedStderr();
}

/// Sleeps for three seconds, also where a signal comes.
void sleep_on() {
  for (unsigned left = 3; left > 0;) left = ::sleep(left);
}

class Silence : public testing::Test {
 protected:
  ~Silence() override { set_silence_seconds(before_); }
  const int before_ = silence_seconds();
};

TEST_F(Silence, ARankThatSleepsIsNamedOnce) {
  EXPECT_EQ(silence_seconds(), 60);
  set_silence_seconds(1);
  for (const int threads : {1, 3}) {
    WorldSpec spec = world_of(4);
    spec.threads = threads;
    EXPECT_EQ(written_by(spec, sleep_on), "rank 2 has run without a call for 1 s\n") << threads;
  }
}

TEST_F(Silence, ARankThatIsAThreadIsNamed) {
  set_silence_seconds(1);
  WorldSpec spec = world_of(4);
  spec.contexts = ContextKind::thread;
  EXPECT_EQ(written_by(spec, sleep_on), "rank 2 has run without a call for 1 s\n");
}

TEST_F(Silence, RanksThatEndInTimeAreNotNamed) {
  EXPECT_EQ(written_by(world_of(4), [] { ::sleep(1); }), "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Silence, RanksThatRunAreNamedAtSigquit) {
  const std::string written = written_by(world_of(4), [] {
    std::raise(SIGQUIT);
    sleep_on();
  });
  EXPECT_EQ(written.find("rank 2 has run without a call for "), 0U) << written;
}
#endif

}  // namespace

// A project's program with planted cases, which spread_check_test.cpp starts by mpirun:
//
//   spread_ranks CASE [check] [--options]
//
//   right      holds
//   wrong      is wrong from two ranks and three tokens on
//   throws     a rank program breaks a contract
//   killed, stopped, leaves
//              holds, until process 1 is killed, stops, or ends in the middle of the campaign

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "sim/launch/launch.h"
#include "sim/tensor/ops.h"
#include "verify/cases/case_inputs.h"
#include "verify/prove.h"

namespace {

using namespace verify;

class PlantedCase : public CaseOf<PlantedCase> {
 public:
  explicit PlantedCase(std::string name)
      : name_(std::move(name)),
        is_process_1_(sim::detect_launch({}, sim::environment_of_process()).rank == 1) {}
  std::string name() const override { return name_; }
  std::vector<Dimension> dimensions() const override { return {{"tokens", 1, 9}, {"hidden", 1, 9}}; }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {{"y"}}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    constexpr int kInTheMiddle = 300;
    if (is_process_1_ && runs_++ == kInTheMiddle) end();
    const bool is_wrong = s.group_size >= 2 && s["tokens"] >= 3 && rank.id == 0;
    if (is_wrong && name_ == "throws") rank.groups.get("tp").barrier("throws.alone");
    const sim::Tensor x = drawn(rank, s, "x", {s["tokens"], s["hidden"]});
    rank.publish("y", sim::scale(x, {is_wrong && name_ == "wrong" ? 2 : 1, 1}));
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return {{"y", inputs.matrix("x", s["tokens"], s["hidden"])}};
  }

 private:
  void end() const {
    if (name_ == "killed") std::raise(SIGKILL);
    if (name_ == "stopped") std::raise(SIGSTOP);
    if (name_ == "leaves") std::exit(0);
  }

  std::string name_;
  bool is_process_1_;
  mutable std::atomic<int> runs_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  CaseList cases;
  cases.push_back(std::make_unique<PlantedCase>(argv[1]));
  return prove(argc, argv, cases, 1);
}

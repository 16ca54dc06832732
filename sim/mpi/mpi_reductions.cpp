#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <mpi.h>
#include <string>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/mpi/native_reductions.h"

namespace sim {

namespace {

/// Refuses an operation that MPI reports as failed.
void require_mpi(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) length = 0;
  refuse({.code = "mpi_failed",
          .option = what,
          .numbers =
              fmt::format("MPI: {} (code {})", std::string(words, static_cast<std::size_t>(length)), code),
          .rule = "MPI completes each operation without an error",
          .hint = "act on the message of MPI, or run with --mpi-reductions folded"});
}

/// Makes errors on a communicator return an error code instead of ending the process.
void say_errors(MPI_Comm communicator) {
  require_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/// Duplicates MPI_COMM_WORLD, so that the messages with which MPI makes a group cannot be taken for letters.
MPI_Comm second_world() {
  MPI_Comm second = MPI_COMM_NULL;
  say_errors(MPI_COMM_WORLD);
  require_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &second), "MPI_Comm_dup");
  require_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL), "MPI_Comm_set_errhandler");
  say_errors(second);
  return second;
}

MPI_Comm communicator_of(MPI_Comm world, const std::vector<int>& members) {
  constexpr int kTag = 0;
  MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  require_mpi(MPI_Comm_group(world, &all), "MPI_Comm_group");
  require_mpi(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group),
              "MPI_Group_incl");
  require_mpi(MPI_Comm_create_group(world, group, kTag, &communicator), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  say_errors(communicator);
  return communicator;
}

MPI_Datatype mpi_type(DType dtype) {
  if (dtype == DType::f64) return MPI_DOUBLE;
  if (dtype == DType::f32) return MPI_FLOAT;
  CHECK(dtype == DType::i32);
  return MPI_INT32_T;
}

MPI_Op mpi_operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::product:
      break;
  }
  return MPI_PROD;
}

/// A reduction that was started in MPI. Its buffers belong to MPI until it is done.
struct Flight {
  std::string what;
  NativeReduction reduction;
  Bytes result;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_done = false;

  void ask() {
    int done = 0;
    require_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    is_done = done != 0;
  }
};

class MpiRequest : public NativeRequest {
 public:
  explicit MpiRequest(std::shared_ptr<Flight> flight) : flight_(std::move(flight)) {}
  bool is_done() override {
    if (!flight_->is_done) flight_->ask();
    return flight_->is_done;
  }
  const Bytes& result() const override { return flight_->result; }

 private:
  std::shared_ptr<Flight> flight_;
};

class MpiGroup : public NativeGroup {
 public:
  MpiGroup(MPI_Comm world, const std::vector<int>& members, std::int64_t& started)
      : size_(static_cast<int>(members.size())),
        started_(started),
        communicator_(communicator_of(world, members)) {
    require_mpi(MPI_Comm_rank(communicator_, &place_), "MPI_Comm_rank");
  }

  std::unique_ptr<NativeRequest> start(NativeReduction reduction) override {
    CHECK(has_native_reduction(reduction.operation, reduction.dtype, reduction.count, size_));
    std::erase_if(flights_, [](const auto& flight) { return flight->is_done; });
    const bool gets = reduction.operation != Operation::reduce || reduction.root == place_;
    const auto flight = std::make_shared<Flight>();
    flight->what =
        fmt::format("MPI's {} of {} {} ({}), place {} of {}", name_of(reduction.operation), reduction.count,
                    name_of(reduction.dtype), name_of(reduction.reduce_op), place_, size_);
    flight->reduction = std::move(reduction);
    flight->result.resize(
        gets ? static_cast<std::size_t>(flight->reduction.count * size_of(flight->reduction.dtype)) : 0);
    flights_.push_back(flight);
    ask_for(*flight);
    ++started_;
    return std::make_unique<MpiRequest>(flight);
  }

  void close() {
    CHECK(std::all_of(flights_.begin(), flights_.end(), [](const auto& flight) { return flight->is_done; }));
    require_mpi(MPI_Comm_free(&communicator_), "MPI_Comm_free");
  }

 private:
  void ask_for(Flight& flight) {
    const NativeReduction& reduction = flight.reduction;
    const auto count = static_cast<int>(reduction.count);
    const MPI_Datatype type = mpi_type(reduction.dtype);
    const MPI_Op op = mpi_operation(reduction.reduce_op);
    const std::byte* given = reduction.given.data();
    std::byte* result = flight.result.data();
    const auto asked = [&] {
      if (reduction.operation == Operation::all_reduce)
        return MPI_Iallreduce(given, result, count, type, op, communicator_, &flight.request);
      if (reduction.operation == Operation::reduce_scatter)
        return MPI_Ireduce_scatter_block(given, result, count, type, op, communicator_, &flight.request);
      return MPI_Ireduce(given, result, count, type, op, reduction.root, communicator_, &flight.request);
    };
    require_mpi(asked(), flight.what);
  }

  int size_;
  int place_ = 0;
  std::int64_t& started_;
  MPI_Comm communicator_;
  std::vector<std::shared_ptr<Flight>> flights_;
};

/// It lives as long as the process uses MPI, so that reductions in flight when a program fails keep their
/// buffers.
class MpiOwnReductions : public NativeReductions {
 public:
  NativeGroup& open_group(const std::vector<int>& members) override {
    CHECK(members.size() > 1);
    return *groups_.emplace_back(std::make_unique<MpiGroup>(world_, members, started_));
  }
  void close_groups() override {
    // Groups are closed in the order in which they were made, which is the same on all members.
    for (const auto& group : groups_) group->close();
    groups_.clear();
  }
  std::int64_t started() const override { return started_; }

 private:
  MPI_Comm world_ = second_world();  // never freed: it lives until MPI ends
  std::int64_t started_ = 0;
  std::vector<std::unique_ptr<MpiGroup>> groups_;
};

}  // namespace

std::unique_ptr<NativeReductions> open_mpi_reductions() { return std::make_unique<MpiOwnReductions>(); }

}  // namespace sim

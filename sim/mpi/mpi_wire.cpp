#include "sim/mpi/mpi_wire.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mpi.h>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/check.h"

namespace sim {

namespace {

constexpr int kTag = 0;
constexpr std::size_t kLengthBytes = 8;  // bytes of the length that precedes each letter
constexpr int kAbandoned = 3;            // the exit code of a world that one process left

/// A letter in flight, with its length before it.
struct Outgoing {
  Bytes bytes;
  std::vector<MPI_Request> pieces;

  bool is_gone() {
    int gone = 0;
    MPI_Testall(static_cast<int>(pieces.size()), pieces.data(), &gone, MPI_STATUSES_IGNORE);
    return gone != 0;
  }
};

class MpiWire : public Wire {
 public:
  explicit MpiWire(std::size_t most_piece) : most_piece_(most_piece) {
    SIM_CHECK(most_piece >= kLengthBytes);
    int provided = 0;
    // The process may have other threads, such as those of virtual ranks, but only one of them calls MPI.
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    incoming_.resize(static_cast<std::size_t>(size_));
  }
  ~MpiWire() override {
    if (!is_closed_) MPI_Abort(MPI_COMM_WORLD, kAbandoned);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, Bytes letter) override {
    ByteWriter length;
    length.number(letter.size(), kLengthBytes);
    Bytes bytes = length.take();
    bytes.insert(bytes.end(), letter.begin(), letter.end());
    Outgoing& outgoing = outgoing_.emplace_back(Outgoing{.bytes = std::move(bytes)});
    for (std::size_t begin = 0; begin < outgoing.bytes.size(); begin += most_piece_) {
      const std::size_t count = std::min(most_piece_, outgoing.bytes.size() - begin);
      MPI_Isend(outgoing.bytes.data() + begin, static_cast<int>(count), MPI_BYTE, to, kTag, MPI_COMM_WORLD,
                &outgoing.pieces.emplace_back());
    }
    forget_gone();
  }

  std::optional<Arrival> receive() override {
    forget_gone();
    for (;;) {
      int has_come = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &has_come, &status);
      if (has_come == 0) return std::nullopt;
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      Bytes& bytes = incoming_[static_cast<std::size_t>(status.MPI_SOURCE)];
      const std::size_t before = bytes.size();
      bytes.resize(before + static_cast<std::size_t>(count));
      MPI_Recv(bytes.data() + before, count, MPI_BYTE, status.MPI_SOURCE, kTag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      SIM_CHECK(bytes.size() >= kLengthBytes);
      const std::uint64_t length = ByteReader(std::span(bytes).first(kLengthBytes)).number(kLengthBytes);
      SIM_CHECK(bytes.size() <= kLengthBytes + length);
      if (bytes.size() < kLengthBytes + length) continue;
      Arrival arrival{status.MPI_SOURCE, std::exchange(bytes, {})};
      arrival.letter.erase(arrival.letter.begin(), arrival.letter.begin() + kLengthBytes);
      return arrival;
    }
  }

  void close() override {
    for (Outgoing& outgoing : outgoing_) {
      MPI_Waitall(static_cast<int>(outgoing.pieces.size()), outgoing.pieces.data(), MPI_STATUSES_IGNORE);
    }
    is_closed_ = true;
    MPI_Finalize();
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  void forget_gone() {
    while (!outgoing_.empty() && outgoing_.front().is_gone()) outgoing_.pop_front();
  }

  std::size_t most_piece_;
  int rank_ = 0;
  int size_ = 1;
  bool is_closed_ = false;
  std::deque<Outgoing> outgoing_;  // the oldest first
  std::vector<Bytes> incoming_;    // by sender: the pieces of its next letter that have arrived
};

}  // namespace

void require_mpi(const std::string& /*asked_by*/) {}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  // "Open MPI v4.1.4, package: ..."; "MPICH Version:      4.0.2\nMPICH Release date: ..."
  std::string library(text, static_cast<std::size_t>(std::max(length, 0)));
  library.resize(std::min(library.size(), library.find_first_of(",\n")));
  std::string words;
  for (const char c : library) {
    const bool is_blank = c == ' ' || c == '\t' || c == '\0';
    if (!is_blank || (!words.empty() && words.back() != ' ')) words += is_blank ? ' ' : c;
  }
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

std::unique_ptr<Wire> open_mpi_wire(std::size_t most_piece) { return std::make_unique<MpiWire>(most_piece); }

}  // namespace sim

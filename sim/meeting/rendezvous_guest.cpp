#include "sim/meeting/rendezvous_guest.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace sim {

namespace {

constexpr const char* kNoAnswer = "no answer";

}  // namespace

std::string RendezvousGuest::where() const { return endpoint_text(spec_.master_addr, spec_.master_port); }

/// Sends a frame and returns the frame that arrives next. If none arrives, it closes the connection and
/// returns the reason.
std::variant<Frame, std::string> RendezvousGuest::exchange(const Frame& frame, const Deadline& deadline) {
  connection_->send(frame);
  while (true) {
    Incoming incoming = connection_->receive();
    if (auto* received = std::get_if<Frame>(&incoming)) return std::move(*received);
    std::string why;
    if (const auto* none = std::get_if<NoFrame>(&incoming)) why = "it answered with " + none->reason;
    if (std::holds_alternative<Ended>(incoming)) why = "it closed the connection";
    if (why.empty() && deadline.has_passed()) why = kNoAnswer;
    if (!why.empty()) {
      connection_.reset();
      return why;
    }
    std::array<pollfd, 1> socket = {connection_->interest()};
    poll_until(socket, deadline);
    connection_->flush();
  }
}

/// Makes one attempt to get an answer from rank 0. Returns the answer, or the reason why the attempt failed.
std::variant<Answer, std::string> RendezvousGuest::ask(const Deadline& deadline) {
  auto socket = connect_to(spec_.master_addr, spec_.master_port, deadline);
  if (auto* none = std::get_if<NoSocket>(&socket)) return none->reason;
  connection_.emplace(std::move(std::get<Socket>(socket)), where());
  const Hello hello{spec_.program_version, spec_.rank,    spec_.world_size,    spec_.configuration,
                    host_name(),           spec_.payload, deadline.remaining()};
  auto received = exchange(frame_of(hello), deadline);
  if (auto* why = std::get_if<std::string>(&received)) {
    if (*why != kNoAnswer) heard_ = *why;
    if (!heard_.empty()) return heard_;  // says more than the deadline that ended the last attempt
    refuse({.code = "rendezvous_silent",
            .option = "--master-addr",
            .numbers = fmt::format("rank {} reached {}, which did not answer within {}", spec_.rank, where(),
                                   text_of(spec_.deadline)),
            .rule = "rank 0 answers before a rank's deadline has passed",
            .hint = "look at what rank 0 wrote, check that nothing else listens there, or set another "
                    "--master-port"});
  }
  std::optional<Answer> answer = decoded_answer(std::get<Frame>(received));
  if (answer) return std::move(*answer);
  connection_.reset();
  return heard_ = "it sent a message that is not an answer";
}

Meeting RendezvousGuest::meet() {
  constexpr std::chrono::milliseconds kFirstPause{10};
  constexpr std::chrono::milliseconds kLongestPause{500};
  const Deadline deadline = Deadline::after(spec_.deadline);
  std::chrono::milliseconds pause = kFirstPause;
  for (int attempts = 1;; ++attempts) {
    auto asked = ask(deadline);
    if (auto* answer = std::get_if<Answer>(&asked)) {
      if (!answer->refusal)
        return {std::move(answer->payload), {}, answer->local_rank, answer->local_world_size};
      connection_.reset();
      refuse(*answer->refusal);
    }
    if (deadline.has_passed()) {
      refuse(
          {.code = "rendezvous_unreachable",
           .option = "--master-addr",
           .numbers = fmt::format("rank {} tried {} {} times within {}; the last time: {}", spec_.rank,
                                  where(), attempts, text_of(spec_.deadline), std::get<std::string>(asked)),
           .rule = "rank 0 listens at the master address",
           .hint = "check that rank 0 runs, and runs there; it may also have started without this rank"});
    }
    poll_until({}, std::min(deadline, Deadline::after(pause)));
    pause = std::min(2 * pause, kLongestPause);
  }
}

Conclusion RendezvousGuest::finish(const Report& report) {
  const Report patient{report.is_equal, report.text, std::min(spec_.deadline, kLongestPatience)};
  auto received = exchange(frame_of(patient), Deadline::after(spec_.deadline));
  std::string why;
  if (const auto* frame = std::get_if<Frame>(&received)) {
    if (const std::optional<Ending> ending = decoded_ending(*frame)) {
      connection_.reset();
      return conclusion_of(*ending);
    }
    why = "it sent a message that is not a conclusion";
  } else {
    why = std::get<std::string>(received);
  }
  connection_.reset();
  return conclusion_of(
      {false, Refusal{"rendezvous_lost", "--master-addr", fmt::format("rank 0 at {}: {}", where(), why),
                      "rank 0 tells all ranks how the run ended", "look at what rank 0 wrote last"}});
}

}  // namespace sim

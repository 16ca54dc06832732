#include "sim/guest/guest_program.h"

#include <exception>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/error.h"
#include "sim/guest/frames.h"
#include "sim/guest/guest_calls.h"
#include "sim/guest/guest_request.h"

namespace sim {

namespace {

using nlohmann::json;

json answer_of(const Refusal& refusal) {
  return {{"refused",
           {{"code", refusal.code},
            {"option", refusal.option},
            {"numbers", refusal.numbers},
            {"rule", refusal.rule},
            {"hint", refusal.hint}}}};
}

class Served {
 public:
  Served(Rank& rank, const GuestEnd& end, GuestRecord& record)
      : rank_(rank), frames_(end.socket), calls_(rank, end.segment), record_(record) {}

  void run() {
    for (;;) {
      const std::string body = frames_.read();
      if (answer_to(body)) return;
    }
  }

 private:
  /// Answers a request, and returns whether it was the last one. What is refused is an exception in the
  /// guest's program, as it is in one of C++.
  bool answer_to(const std::string& body) {
    json said;
    GuestRequest request;
    try {
      request = guest_request(body);
      said = served(request);
    } catch (const Error& error) {
      last_refusal_ = std::current_exception();
      said = answer_of(error.refusal());
    } catch (const std::exception&) {
      throw;
    } catch (...) {  // the world has ended
      tell_the_end();
      throw;
    }
    answer(said);
    if (request.wish == GuestWish::raised) end_by(request);
    return request.wish == GuestWish::end && said.empty();
  }

  json served(const GuestRequest& request) {
    switch (request.wish) {
      case GuestWish::call:
      case GuestWish::batch: {
        record_.calls.fetch_add(std::ssize(request.calls), std::memory_order_relaxed);
        calls_.start(frames_.number(), request);
        if (request.waits) calls_.wait(frames_.number());
        return json::object();
      }
      case GuestWish::wait:
        calls_.wait(request.call);
        return json::object();
      case GuestWish::new_group: {
        const auto [number, place] = calls_.new_group(request);
        if (is_first()) record_.groups.push_back({request.name, request.members});
        if (place < 0) return {{"group", nullptr}};
        return {{"group", number}, {"place", place}};
      }
      case GuestWish::publish:
        rank_.publish(request.name, calls_.tensor_of(request.tensor));
        record_.places[static_cast<std::size_t>(rank_.id - rank_.layout.first_rank)].push_back(request.place);
        return json::object();
      case GuestWish::tell:
        if (is_first()) record_.told = request.text;
        return json::object();
      case GuestWish::end:
      case GuestWish::raised:
        break;
    }
    return json::object();
  }

  /// Whether this is the rank that keeps what all ranks do alike.
  bool is_first() const { return rank_.id == rank_.layout.first_rank; }

  /// A guest that is gone need not know.
  void tell_the_end() {
    try {
      answer({{"ended", true}});
    } catch (const Error&) {
    }
  }

  void answer(const json& body) { frames_.write(body.dump(-1, ' ', true, json::error_handler_t::replace)); }

  [[noreturn]] void end_by(const GuestRequest& raised) const {
    if (raised.is_refused && last_refusal_) std::rethrow_exception(last_refusal_);
    refuse({.code = "guest_raised",
            .option = "its program",
            .numbers = raised.text,
            .rule = "a program ends on every rank without an exception, and with exit code 0",
            .hint = "see what it has written"});
  }

  Rank& rank_;
  Frames frames_;
  GuestCalls calls_;
  GuestRecord& record_;
  std::exception_ptr last_refusal_;  // of a request
};

}  // namespace

RankProgram guest_program(std::vector<GuestEnd> ends, GuestRecord& record) {
  record.places.resize(ends.size());
  return [ends = std::move(ends), &record](Rank& rank) {
    Served(rank, ends[static_cast<std::size_t>(rank.id - rank.layout.first_rank)], record).run();
  };
}

}  // namespace sim

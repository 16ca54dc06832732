#include "verify/recorded_job/call_meaning.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::size_t kMostCharacters = 300;  // of a line

/// A program of the user may lie in a folder that is called torch, too.
bool is_of_pytorch(std::string_view frame) {
  constexpr std::array<std::string_view, 7> kFolders = {
      "-packages/torch/", "/torch/distributed/", "/torch/nn/", "/torch/autograd/", "/torch/utils/",
      "/torch/_",         "/torch/optim/"};
  return std::ranges::any_of(
      kFolders, [&](std::string_view folder) { return frame.find(folder) != std::string_view::npos; });
}

// What calls of a kind of group with an operation and a dtype are for, in four columns. "-" fits every dtype;
// "Long" stands for whole numbers. {gradient} and {parameter} stand for a bucket, with its number where it is
// known, and {exchange} for the way of tokens.
constexpr std::string_view kMeanings =
#include "call_meanings.tsv.inc"
    ;

/// A message between stages. Activations go to the next stage, and gradients come back.
std::string between_stages(const JobGroup& group, const Operation& operation) {
  const int stages = static_cast<int>(group.members.size());
  if (operation.from < 0 || stages < 2) return "";
  const bool sends = operation.kind == Operation::Kind::send;
  const char* const verb = sends ? "sent to" : "received from";
  const int peer = operation.peer();
  const bool is_forward = operation.to == (operation.from + 1) % stages;
  const bool is_backward = operation.from == (operation.to + 1) % stages;
  if (is_forward == is_backward)
    return "an activation or its gradient, " + (verb + (" stage " + std::to_string(peer)));
  return (is_forward ? "an activation, " : "a gradient, ") + (verb + (" stage " + std::to_string(peer)));
}

/// Looks at the calls of a rank before one of them.
class EarlierCalls {
 public:
  explicit EarlierCalls(const JobCall& call) : call_(call) {}

  /// Returns the number of a bucket, and how many there are.
  CallMeaning bucket() const {
    CallMeaning counted;
    const auto [number, first] = buckets_before(call_.index());
    if (first == 0) return counted;
    counted.bucket = number + 1;
    std::size_t last = first - 1;  // calls that are no bucket, back to the buckets of the step before
    while (last > 0 && !is_alike(at(last))) --last;
    const auto [all, before] = buckets_before(last + 1);
    if (before > 0 && all >= counted.bucket) counted.buckets = all;
    return counted;
  }

  /// Returns which way tokens go between ranks, as far as the sizes tell.
  std::string exchange() const {
    const std::int64_t in = call_.elements_in(), out = call_.elements_out();
    for (std::size_t i = call_.index(); in != out && i > 0; --i) {
      if (!is_alike(at(i - 1))) continue;
      const bool is_undone = at(i - 1).elements_in() == out && at(i - 1).elements_out() == in;
      return is_undone ? "combine of tokens from" : "dispatch of tokens to";
    }
    return "dispatch or combine of tokens to";
  }

 private:
  JobCall at(std::size_t index) const { return call_.job->call_at(call_.dump, index); }

  /// Counts the buckets before a call back to the end of a step. Returns the first call after it, too.
  std::pair<std::int64_t, std::size_t> buckets_before(std::size_t index) const {
    std::int64_t number = 0;
    for (; index > 0 && !ends_a_step(at(index - 1)); --index) number += is_alike(at(index - 1)) ? 1 : 0;
    return {number, index};
  }

  bool is_alike(const JobCall& other) const {
    return other->group == call_->group && other.operation().name == call_.operation().name &&
           (other.operation().name != "all_reduce" || other.elements_in() > kMostOfALoss);
  }
  bool ends_a_step(const JobCall& other) const {
    const std::string& kind = other.group().kind;
    if (kind == "mp" || kind == "intra-dist-opt" || kind == "tp-ep-pp") return true;
    return other->group == call_->group && !is_alike(other);
  }

  const JobCall call_;
};

/// Returns "gradient bucket 2 of 5", or "a gradient bucket" where the number is not known.
std::string bucket_words(const char* what, const CallMeaning& meaning) {
  if (meaning.bucket == 0) return fmt::format("a {} bucket", what);
  if (meaning.buckets == 0) return fmt::format("{} bucket {}", what, meaning.bucket);
  return fmt::format("{} bucket {} of {}", what, meaning.bucket, meaning.buckets);
}

CallMeaning with_details(std::string_view phrase, const JobCall& call) {
  const EarlierCalls before(call);
  CallMeaning meaning;
  meaning.text = phrase;
  const auto put = [&](std::string_view place, const auto& words) {
    if (const std::size_t at = meaning.text.find(place); at != std::string::npos)
      meaning.text.replace(at, place.size(), words());
  };
  const auto bucket = [&](const char* what) {
    const CallMeaning counted = before.bucket();
    meaning.bucket = counted.bucket;
    meaning.buckets = counted.buckets;
    return bucket_words(what, counted);
  };
  const std::int64_t elements = call.elements_in();
  const bool is_loss = call.operation().name == "all_reduce" && elements >= 0 && elements <= kMostOfALoss;
  put("{gradient}", [&] { return is_loss ? std::string("a loss or of a count") : bucket("gradient"); });
  put("{parameter}", [&] { return bucket("parameter"); });
  put("{exchange}", [&] { return before.exchange(); });
  return meaning;
}

}  // namespace

std::vector<std::string_view> program_frames(const Recording& recording, const RecordedCall& call) {
  const std::string_view text = recording.text(call.frames);
  std::vector<std::string_view> all, own;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    all.push_back(text.substr(begin, end - begin));
    if (!is_of_pytorch(all.back())) own.push_back(all.back());
    begin = end + 1;
  }
  return own.empty() ? all : own;
}

std::string line_of(const Recording& recording, const RecordedCall& call) {
  const std::vector<std::string_view> frames = program_frames(recording, call);
  return frames.empty() ? "" : sim::printable_text(std::string(frames.front().substr(0, kMostCharacters)));
}

std::string line_of(const JobCall& call) { return line_of(call.recording(), *call.recorded); }

CallMeaning call_meaning(const JobCall& call) {
  const JobGroup& group = call.group();
  const Operation& operation = call.operation();
  if (group.kind == "pp" && operation.is_message()) return {.text = between_stages(group, operation)};
  static const std::vector<TextRow> rows = rows_of_table(kMeanings);
  const std::string& recorded = call.recording().text(call->dtypes);
  for (const TextRow& row : rows) {
    const std::string &kind = row[0], &name = row[1], &dtype = row[2], &phrase = row[3];
    const bool fits = dtype == "-" || dtype == recorded || (dtype == "Long" && recorded == "Int");
    if (kind != group.kind || name != operation.name || !fits) continue;
    CallMeaning found = with_details(phrase, call);
    if (call.recording().text(call->thread).starts_with("pt_autograd")) found.text += ", in a backward pass";
    return found;
  }
  return {};
}

}  // namespace verify

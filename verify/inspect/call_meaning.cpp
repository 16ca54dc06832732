#include "verify/inspect/call_meaning.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>
#include <vector>

#include "sim/base/printable_text.h"

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

/// What calls of a kind of group with an operation are for. An empty dtype fits every one; "Long" stands for
/// whole numbers. {gradient} and {parameter} stand for a bucket, with its number where it is known.
struct Meaning {
  std::string_view kind, operation, dtype, phrase;
};
constexpr Meaning kMeanings[] = {
    {"tp", "all_gather", "", "the gather of a sequence-parallel input"},
    {"tp", "reduce_scatter", "", "the reduce-scatter of a sequence-parallel output"},
    {"tp", "broadcast", "Long", "the broadcast of a batch to the tensor-parallel ranks"},
    {"tp", "broadcast", "", "a broadcast of parameters or of a batch to the tensor-parallel ranks"},
    {"tp", "all_reduce", "Float", "the softmax of the vocabulary-parallel loss, or a sum of a gradient"},
    {"tp", "all_reduce", "", "the sum of a row-parallel output or of an input's gradient"},
    {"tp-cp", "all_reduce", "Long", "the token counts of the experts"},
    {"tp-dp-cp", "all_reduce", "Float", "the router's auxiliary loss or the token counts behind its bias"},
    {"ep", "all_to_all", "", "the {exchange} experts"},
    {"ep", "all_gather", "", "the gather of token counts or tokens of the experts"},
    {"tp-ep", "all_gather", "Long", "the token counts of every expert"},
    {"tp-ep", "all_gather", "", "the gather of tokens for the experts"},
    {"tp-ep", "reduce_scatter", "", "the return of tokens from the experts"},
    {"tp-ep", "all_to_all", "", "the {exchange} experts"},
    {"etp", "all_gather", "", "the gather of tokens for experts cut over etp"},
    {"etp", "reduce_scatter", "", "the return of tokens from experts cut over etp"},
    {"dp", "all_reduce", "", "the sum of {gradient}"},
    {"dp-cp", "all_reduce", "", "the sum of {gradient}"},
    {"dp", "reduce_scatter", "", "the reduce-scatter of {gradient} (distributed optimizer)"},
    {"dp-cp", "reduce_scatter", "", "the reduce-scatter of {gradient} (distributed optimizer)"},
    {"dp", "all_gather", "", "the gather of {parameter} (distributed optimizer)"},
    {"dp-cp", "all_gather", "", "the gather of {parameter} (distributed optimizer)"},
    {"edp", "all_reduce", "", "the sum of {gradient} of experts"},
    {"edp", "reduce_scatter", "", "the reduce-scatter of {gradient} of experts"},
    {"edp", "all_gather", "", "the gather of {parameter} of experts"},
    {"cp", "send", "", "keys and values on their way around the context-parallel ring"},
    {"cp", "recv", "", "keys and values on their way around the context-parallel ring"},
    {"cp", "all_gather", "", "the gather of keys and values"},
    {"cp", "all_to_all", "", "the exchange of heads for parts of the sequence"},
    {"mp", "all_reduce", "", "the norm of the gradients, or the search for an overflow"},
    {"intra-dist-opt", "all_reduce", "", "the norm of the gradients, or the search for an overflow"},
    {"embd", "all_reduce", "", "the sum of the tied embedding's gradient"},
    {"pos_embd", "all_reduce", "", "the sum of the position embedding's gradient"}};

bool fits_dtype(std::string_view dtype, std::string_view recorded) {
  return dtype.empty() || recorded == dtype || (dtype == "Long" && recorded == "Int");
}

/// A message between stages. Activations go to the next stage, and gradients come back.
std::string between_stages(const JobGroup& group, const Operation& operation) {
  const int stages = static_cast<int>(group.members.size());
  if (operation.from < 0 || stages < 2) return "";
  const bool sends = operation.kind == Operation::Kind::send;
  const char* const verb = sends ? "sent to" : "received from";
  const int peer = sends ? operation.to : operation.from;
  const bool is_forward = operation.to == (operation.from + 1) % stages;
  const bool is_backward = operation.from == (operation.to + 1) % stages;
  if (is_forward == is_backward)
    return "an activation or its gradient, " + (verb + (" stage " + std::to_string(peer)));
  return (is_forward ? "an activation, " : "a gradient, ") + (verb + (" stage " + std::to_string(peer)));
}

/// Looks at the calls of a rank before one of them.
class EarlierCalls {
 public:
  EarlierCalls(const Job& job, std::size_t dump, std::size_t index)
      : job_(job), dump_(dump), index_(index), calls_(job.recordings[dump].calls) {}

  /// Returns the number of a bucket, and how many there are.
  CallMeaning bucket() const {
    CallMeaning counted;
    std::int64_t number = 1;
    std::size_t first = index_;
    for (; first > 0 && !ends_a_step(first - 1); --first) {
      if (is_alike(first - 1)) ++number;
    }
    if (first == 0) return counted;
    counted.bucket = number;
    std::size_t last = first - 1;  // calls that are no bucket, back to the buckets of the step before
    while (last > 0 && !is_alike(last)) --last;
    std::int64_t all = 0;
    std::size_t before = last + 1;
    for (; before > 0 && !ends_a_step(before - 1); --before) {
      if (is_alike(before - 1)) ++all;
    }
    if (before > 0 && all >= number) counted.buckets = all;
    return counted;
  }

  /// Returns which way tokens go between ranks, as far as the sizes tell.
  std::string exchange() const {
    const std::int64_t in = elements(calls_[index_].input_sizes), out = elements(calls_[index_].output_sizes);
    for (std::size_t i = index_; in != out && i > 0; --i) {
      if (!is_alike(i - 1)) continue;
      const bool is_undone =
          elements(calls_[i - 1].input_sizes) == out && elements(calls_[i - 1].output_sizes) == in;
      return is_undone ? "combine of tokens from" : "dispatch of tokens to";
    }
    return "dispatch or combine of tokens to";
  }

  std::int64_t elements() const { return elements(calls_[index_].input_sizes); }

 private:
  std::int64_t elements(std::uint32_t sizes) const { return job_.recordings[dump_].sizes[sizes].elements; }
  const JobGroup& group(std::size_t call) const { return job_.groups[job_.group_of(dump_, calls_[call])]; }
  const std::string& operation(std::size_t call) const { return job_.operation(dump_, calls_[call]).name; }

  bool is_alike(std::size_t call) const {
    return calls_[call].group == calls_[index_].group && operation(call) == operation(index_) &&
           (operation(call) != "all_reduce" || elements(calls_[call].input_sizes) > kMostOfALoss);
  }
  bool ends_a_step(std::size_t call) const {
    const std::string& kind = group(call).kind;
    if (kind == "mp" || kind == "intra-dist-opt" || kind == "tp-ep-pp") return true;
    return calls_[call].group == calls_[index_].group && !is_alike(call);
  }

  const Job& job_;
  std::size_t dump_;
  std::size_t index_;
  const std::vector<RecordedCall>& calls_;
};

/// Returns "gradient bucket 2 of 5", or "a gradient bucket" where the number is not known.
std::string bucket_words(const char* what, const CallMeaning& meaning) {
  if (meaning.bucket == 0) return fmt::format("a {} bucket", what);
  if (meaning.buckets == 0) return fmt::format("{} bucket {}", what, meaning.bucket);
  return fmt::format("{} bucket {} of {}", what, meaning.bucket, meaning.buckets);
}

CallMeaning with_details(std::string_view phrase, const EarlierCalls& before, std::string_view operation) {
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
  put("{gradient}", [&] {
    const bool is_loss =
        operation == "all_reduce" && before.elements() >= 0 && before.elements() <= kMostOfALoss;
    return is_loss ? std::string("a loss or of a count") : bucket("gradient");
  });
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

std::string line_of(const Job& job, const HoldingCall& call) {
  if (call.call < 0) return "";
  const Recording& recording = job.recordings[call.dump];
  return line_of(recording, recording.calls[static_cast<std::size_t>(call.call)]);
}

const RecordedCall* last_call_of(const Job& job, const Suspect& suspect) {
  const Recording* const recording = job.find_recording(suspect.rank);
  const bool stands_still = suspect.kind == SuspectKind::host && recording != nullptr;
  return stands_still && !recording->calls.empty() ? &recording->calls.back() : nullptr;
}

CallMeaning call_meaning(const Job& job, std::size_t dump, std::size_t index) {
  const RecordedCall& call = job.recordings[dump].calls[index];
  const JobGroup& group = job.groups[job.group_of(dump, call)];
  const Operation& operation = job.operation(dump, call);
  if (group.kind == "pp" && operation.is_message()) return {.text = between_stages(group, operation)};
  const std::string_view dtypes = job.recordings[dump].text(call.dtypes);
  for (const Meaning& meaning : kMeanings) {
    if (meaning.kind == group.kind && meaning.operation == operation.name &&
        fits_dtype(meaning.dtype, dtypes)) {
      CallMeaning found = with_details(meaning.phrase, EarlierCalls(job, dump, index), operation.name);
      if (job.recordings[dump].text(call.thread).starts_with("pt_autograd"))
        found.text += ", in a backward pass";
      return found;
    }
  }
  return {};
}

}  // namespace verify

#include "verify/inspect/call_meaning.h"

#include <string_view>

namespace verify {

namespace {

/// What calls of a kind of group with an operation are for. An empty dtype fits every one; "Long" stands for
/// whole numbers.
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
    {"ep", "all_to_all", "", "the dispatch or combine of tokens to experts"},
    {"ep", "all_gather", "", "the gather of token counts or tokens of the experts"},
    {"tp-ep", "all_gather", "Long", "the token counts of every expert"},
    {"tp-ep", "all_gather", "", "the gather of tokens for the experts"},
    {"tp-ep", "reduce_scatter", "", "the return of tokens from the experts"},
    {"tp-ep", "all_to_all", "", "the dispatch or combine of tokens to experts"},
    {"etp", "all_gather", "", "the gather of tokens for experts cut over etp"},
    {"etp", "reduce_scatter", "", "the return of tokens from experts cut over etp"},
    {"dp", "all_reduce", "", "the sum of a gradient bucket, or of a loss"},
    {"dp-cp", "all_reduce", "", "the sum of a gradient bucket, or of a loss"},
    {"dp", "reduce_scatter", "", "the reduce-scatter of a gradient bucket (distributed optimizer)"},
    {"dp-cp", "reduce_scatter", "", "the reduce-scatter of a gradient bucket (distributed optimizer)"},
    {"dp", "all_gather", "", "the gather of a parameter bucket (distributed optimizer)"},
    {"dp-cp", "all_gather", "", "the gather of a parameter bucket (distributed optimizer)"},
    {"edp", "all_reduce", "", "the sum of a gradient bucket of experts"},
    {"edp", "reduce_scatter", "", "the reduce-scatter of a gradient bucket of experts"},
    {"edp", "all_gather", "", "the gather of a parameter bucket of experts"},
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

}  // namespace

std::string call_meaning(const Job& job, std::size_t dump, const RecordedCall& call) {
  const JobGroup& group = job.groups[job.group_of(dump, call)];
  const Operation& operation = job.operation(dump, call);
  if (group.kind == "pp" && operation.is_message()) return between_stages(group, operation);
  const std::string_view dtypes = job.recordings[dump].text(call.dtypes);
  for (const Meaning& meaning : kMeanings) {
    if (meaning.kind == group.kind && meaning.operation == operation.name &&
        fits_dtype(meaning.dtype, dtypes)) {
      const bool is_backward = job.recordings[dump].text(call.thread).starts_with("pt_autograd");
      return std::string(meaning.phrase) + (is_backward ? ", in a backward pass" : "");
    }
  }
  return "";
}

}  // namespace verify

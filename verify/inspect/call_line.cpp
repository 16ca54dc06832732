#include "verify/inspect/call_line.h"

#include <algorithm>
#include <array>

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

}  // namespace verify

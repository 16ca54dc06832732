#pragma once

/// What the name of a recorded call says: "nccl:all_reduce", "gloo:send 0->3".

#include <string>
#include <string_view>

namespace verify {

struct Operation {
  enum class Kind {
    collective,  // nobody completes it before every member has joined it
    rooted,      // a member may complete it before others have joined it: broadcast, reduce, gather, scatter
    send,
    recv
  };
  Kind kind = Kind::collective;
  std::string backend;     // "nccl"; "": the name has no prefix
  std::string name;        // "all_reduce", without the marks of PyTorch's flat variants ("_all_gather_base")
  int from = -1, to = -1;  // of a message: positions in the group; -1: the name does not say
  bool is_message() const { return kind == Kind::send || kind == Kind::recv; }
  /// Returns the position of the other end of a message.
  int peer() const { return kind == Kind::recv ? from : to; }
  /// Whether a member that has completed it shows that every member had come to it. An all_to_all needs those
  /// alone that send rows.
  bool needs_all() const { return kind == Kind::collective && name != "all_to_all"; }
};

/// Never fails: a name of another form is a collective of this name.
Operation operation_named(std::string_view recorded);

}  // namespace verify

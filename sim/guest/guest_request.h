#pragma once

/// What a guest asks of its rank: the body of a frame, a JSON object. `do` says what:
///
///   call       one call: operation, group, site, and what the operation takes. `waits` false starts it
///   batch      `calls` of send and recv that are started together; `site` and `group` as above
///   wait       for `call`, the number of the frame that has started a call or a batch
///   new_group  `name`, `members` (global ranks), `site`
///   publish    `name`, `tensor`, `place` (guest_place.h): a value that other runs are compared with
///   tell       `text`: what the program knows of itself, for who has asked for the run (GuestRecord::told)
///   end        the program has ended
///   raised     the program has ended by an exception, whose text is `text`. `refused`: because of the call
///              that was refused last, whose refusal is then the finding
///
/// Shapes  a site is [name, file, line]. A tensor is [dtype, offset, elements]: where it lies in the segment
///         (segment.h). `input` and `output` are tensors or absent; an operation that works in place has
///         both, at the same offset. `group` is a number that new_group gave, or 0 for the world; `root` and
///         `peer` are places in it; `send` and `receive` are elements for each place.
/// Errors  guest_request: the body is no such object. It names the member and what was given.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/comm/call.h"
#include "sim/guest/guest_place.h"

namespace sim {

/// The dtypes that guests may name. A program sends bool as u8, and complex numbers as their parts, as NCCL
/// does.
inline constexpr DType kGuestDTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,    DType::i64,
                                         DType::i32, DType::i8,  DType::u8,   DType::f8e4m3, DType::f8e5m2};

struct GuestTensor {
  DType dtype = DType::f32;
  std::int64_t offset = 0;  // bytes
  std::int64_t count = 0;   // elements
  std::int64_t bytes() const { return count * size_of(dtype); }
};

struct GuestCall {
  Operation operation = Operation::barrier;
  std::size_t group = 0;
  std::optional<GuestTensor> input = {}, output = {};
  ReduceOp reduce_op = ReduceOp::sum;
  int root = -1, peer = -1;
  std::vector<std::int64_t> send = {}, receive = {};
};

enum class GuestWish { call, batch, wait, new_group, publish, tell, end, raised };

struct GuestRequest {
  GuestWish wish = GuestWish::call;
  Site site = "guest";
  std::vector<GuestCall> calls = {};  // one, or those of a batch
  bool waits = true;
  std::size_t call = 0;           // wait
  std::string name = {};          // new_group and publish
  std::vector<int> members = {};  // new_group
  GuestTensor tensor = {};        // publish
  GuestPlace place = {};          // publish
  std::string text = {};          // tell and raised
  bool is_refused = false;        // raised
};

/// Returns the request that the body is; refuses any other text.
GuestRequest guest_request(const std::string& body);

}  // namespace sim

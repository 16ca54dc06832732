#pragma once

/// What stops a piece of work for a reason that the reader can act on: a refusal of bad input.
///
/// A refusal names the option, the numbers, the rule they break, and what to try. It is thrown before
/// anything is built, so a refused layout leaves nothing half made.
///
/// Errors  our own broken invariants are no refusals: check.h.

#include <exception>
#include <string>

namespace sim {

struct Refusal {
  std::string code;     // stable and short, for programs: "dense_div"
  std::string option;   // the option to look at: "--world-size"
  std::string numbers;  // what was given, worked out: "6 ranks over 4 * 1 * 1 = 4"
  std::string rule;     // what must hold
  std::string hint;     // what to try
};

class Error : public std::exception {
 public:
  explicit Error(Refusal refusal);
  const Refusal& refusal() const { return refusal_; }
  /// All of it in one line.
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  Refusal refusal_;
  std::string what_;
};

/// Several lines for a reader, as processes write them to standard error.
std::string text_of(const Refusal& refusal);

/// Throws the refusal; input quoted in it is cut to a few hundred characters.
[[noreturn]] void refuse(Refusal refusal);

}  // namespace sim

#pragma once

/// A refusal: the reason why bad input stops a piece of work, with what the reader can do about it.
///
/// A refusal names the option, the numbers, the rule they break, and what to try. It is thrown before
/// anything is built, so a refused layout leaves nothing half made.
///
/// Errors  A broken invariant of our own code is not a refusal: see check.h.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace sim {

/// An option to try with a size. Whoever knows that the user gave the size by another option changes both.
struct SizeToTry {
  std::string option;                // "--num-microbatches"
  std::optional<std::int64_t> size;  // nothing: another size than the one that is given
  std::string instead = {};          // what else would do: "leave it out"
};

/// Returns it as a hint: "leave it out, or --num-microbatches 8".
std::string text_of(const SizeToTry& to_try);

struct Refusal {
  std::string code;     // short and stable, for programs to match: "dense_div"
  std::string option;   // the option to look at: "--world-size"
  std::string numbers;  // what was given, with its arithmetic: "6 ranks over 4 * 1 * 1 = 4"
  std::string rule;     // what must hold
  std::string hint;     // what to try; refuse() makes it of `to_try`, if that is given
  std::optional<SizeToTry> to_try = {};
};

class Error : public std::exception {
 public:
  explicit Error(Refusal refusal);
  const Refusal& refusal() const { return refusal_; }
  /// Returns the whole refusal in one line.
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  Refusal refusal_;
  std::string what_;
};

/// Returns the refusal in several lines, as processes write it to standard error.
std::string text_of(const Refusal& refusal);

/// Throws the refusal. A text longer than 400 characters is cut first, since it may quote long input.
[[noreturn]] void refuse(Refusal refusal);

}  // namespace sim

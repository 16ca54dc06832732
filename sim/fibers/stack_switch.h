#pragma once

/// A switch of a thread from the stack on which it runs to a suspended one, by Boost.Context.
///
/// Calls   switch_to() suspends this side and goes on with the other one. It returns when something switches
///         back to this side, and then gives what the switch left. A new side begins with the function of
///         make_side(), which gets the same and must not return.
/// Exact   Boost's jump_fcontext() ends with a jump and not with a return, and a processor predicts returns
///         from the calls before them. So it is not called where that can be helped, but jumped to, with the
///         address to go on at pushed before: then the calls and returns of a thread match across a switch,
///         and the predictions hold for ranks that wait in the same functions, one after the other. They make
///         a third of the time of a small call.
/// Source  Boost.Context, detail/fcontext.hpp; Intel 64 and IA-32 Architectures Optimization Reference
///         Manual, section 3.4.1.4.

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

/// A suspended side. A switch to it uses it up.
using Side = boost::context::detail::fcontext_t;

/// What a switch left: the side that it suspended, and what it gave.
using Switched = boost::context::detail::transfer_t;

inline Side make_side(std::byte* top_of_stack, std::size_t bytes, void (*begin)(Switched)) {
  return boost::context::detail::make_fcontext(top_of_stack, bytes, begin);
}

[[gnu::always_inline]] inline Switched switch_to(Side to, void* given = nullptr) {
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__AVX512F__)
  Switched left;
  // The 128 bytes below the top of a stack may be in use. All registers are named that a function may change,
  // but for those of AVX-512, where this is a call.
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "jmp jump_fcontext@PLT\n"
      "1:\n\t"
      "leaq 128(%%rsp), %%rsp"
      : "=a"(left.fctx), "=d"(left.data), "+D"(to), "+S"(given)
      :
      : "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
        "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)",
        "st(4)", "st(5)", "st(6)", "st(7)", "memory", "cc");
  return left;
#else
  return boost::context::detail::jump_fcontext(to, given);
#endif
}

}  // namespace sim

#pragma once

/// The table from a kernel to the function that computes it, for devices whose kernels are the functions of a
/// class. The function of Kernel::softmax is Kernels::softmax. A class that misses a kernel does not compile.
///
/// Calls   a function is const. Its arguments of type const Tensor& are the tensors of the call, inputs before
///         outputs, and another one is the call's parameters. A function that takes a const KernelCall& gets
///         the whole call.

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <type_traits>

#include "sim/tensor/kernel_call.h"

namespace sim {

/// The arguments of a call, one after another.
class CallArguments {
 public:
  explicit CallArguments(const KernelCall& call) : call_(call) {}

  template <typename Argument>
  Argument next() {
    if constexpr (std::is_same_v<Argument, const KernelCall&>) {
      return call_;
    } else if constexpr (std::is_same_v<Argument, const Tensor&>) {
      const std::size_t place = tensors_++, inputs = call_.inputs.size();
      return place < inputs ? *call_.inputs[place] : *call_.outputs[place - inputs];
    } else {
      return std::get<std::remove_cvref_t<Argument>>(call_.parameters);
    }
  }

 private:
  const KernelCall& call_;
  std::size_t tensors_ = 0;  // that have been taken
};

template <typename Kernels, typename... Arguments>
void call_function(const Kernels& kernels, void (Kernels::*function)(Arguments...) const,
                   const KernelCall& call) {
  CallArguments arguments(call);
  const std::tuple<Arguments...> all{arguments.template next<Arguments>()...};  // braces: from left to right
  std::apply([&](const auto&... each) { (kernels.*function)(each...); }, all);
}

/// Calls the function of a kernel with the arguments of a call.
template <auto function, typename Kernels>
void compute(const Kernels& kernels, const KernelCall& call) {
  call_function(kernels, function, call);
}

template <typename Kernels>
struct KernelFunction {
  Kernel kernel;
  void (*run)(const Kernels& kernels, const KernelCall& call);
};

template <typename Kernels>
constexpr auto kKernelFunctions = std::to_array<KernelFunction<Kernels>>({
    {Kernel::fill, compute<&Kernels::fill>},
    {Kernel::poison, compute<&Kernels::poison>},
    {Kernel::copy, compute<&Kernels::copy>},
    {Kernel::combine, compute<&Kernels::combine>},
    {Kernel::scale, compute<&Kernels::scale>},
    {Kernel::compare, compute<&Kernels::compare>},
    {Kernel::select, compute<&Kernels::select>},
    {Kernel::cast, compute<&Kernels::cast>},
    {Kernel::fold, compute<&Kernels::fold>},
    {Kernel::matmul, compute<&Kernels::matmul>},
    {Kernel::add_bias, compute<&Kernels::add_bias>},
    {Kernel::add_column_sums, compute<&Kernels::add_column_sums>},
    {Kernel::copy_columns, compute<&Kernels::copy_columns>},
    {Kernel::lookup, compute<&Kernels::lookup>},
    {Kernel::add_to_rows, compute<&Kernels::add_to_rows>},
    {Kernel::permute, compute<&Kernels::permute>},
    {Kernel::activate, compute<&Kernels::activate>},
    {Kernel::activate_backward, compute<&Kernels::activate_backward>},
    {Kernel::apply, compute<&Kernels::apply>},
    {Kernel::apply_backward, compute<&Kernels::apply_backward>},
    {Kernel::dropout, compute<&Kernels::dropout>},
    {Kernel::rotate, compute<&Kernels::rotate>},
    {Kernel::softmax, compute<&Kernels::softmax>},
    {Kernel::softmax_backward, compute<&Kernels::softmax_backward>},
    {Kernel::partial_softmax, compute<&Kernels::partial_softmax>},
    {Kernel::merge_softmax, compute<&Kernels::merge_softmax>},
    {Kernel::finish_softmax, compute<&Kernels::finish_softmax>},
    {Kernel::partial_softmax_backward, compute<&Kernels::partial_softmax_backward>},
    {Kernel::normalize, compute<&Kernels::normalize>},
    {Kernel::normalize_backward, compute<&Kernels::normalize_backward>},
    {Kernel::adam, compute<&Kernels::adam>},
    {Kernel::clip_factor, compute<&Kernels::clip_factor>},
    {Kernel::scale_by, compute<&Kernels::scale_by>},
    {Kernel::find_nonfinite, compute<&Kernels::find_nonfinite>},
    {Kernel::row_max, compute<&Kernels::row_max>},
    {Kernel::argmax, compute<&Kernels::argmax>},
    {Kernel::token_parts, compute<&Kernels::token_parts>},
    {Kernel::token_loss, compute<&Kernels::token_loss>},
    {Kernel::token_loss_backward, compute<&Kernels::token_loss_backward>},
});

/// Computes a call with the function of its kernel.
template <typename Kernels>
void run_kernel(const Kernels& kernels, const KernelCall& call) {
  constexpr const auto& kRows = kKernelFunctions<Kernels>;
  static_assert(kRows.size() == kKernels);
  static_assert(std::ranges::adjacent_find(kRows, std::ranges::greater_equal(),
                                           &KernelFunction<Kernels>::kernel) == kRows.end(),
                "the rows are in the order of Kernel");
  kRows[static_cast<std::size_t>(call.kernel)].run(kernels, call);
}

}  // namespace sim

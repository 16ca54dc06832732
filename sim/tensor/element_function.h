#pragma once

/// A function of one number that the author of a layer writes, with its derivative. The kernels have only the
/// functions of Activation; this may be any function. It is written once, as two generic functions that take
/// a float or a double:
///
///   const ElementFunction kSquaredRelu = element_function(
///       "squared_relu",
///       [](auto x) { return x < 0 ? decltype(x)(0) : x * x; },
///       [](auto x) { return x < 0 ? decltype(x)(0) : 2 * x; });
///   ...
///   const Tensor y = apply(kSquaredRelu, x);
///   const Tensor grad_x = apply_backward(kSquaredRelu, x, grad_y);
///
/// Shapes  any. All tensors of a call have one dtype and one shape.
/// Calls   Both functions depend on their argument alone, and may be called on several threads at once. Each
///         must compute in the type of its argument: element_function() does not compile otherwise.
///         sim/base/elementary.h has exp, log, tanh and erf that give the same bits everywhere.
///         The functions run on the host. The CPU device calls them in place. A GPU device copies the tensor
///         to the host, computes there, and copies the result back, so each call waits for the GPU. A
///         function that has to be fast on a GPU belongs into Activation, whose functions are kernels.
/// Errors  bad_function: a function without a name, or without one of its parts; those of checks.h.
/// Exact   f64 and f32 are computed in the type itself; bf16 is computed in f32 and rounded once, at the end.
///         The field has no such functions. There, both are keyed functions (field_tower.h), of the name and
///         of the name with "_derivative": equal inputs give equal outputs, and no law connects the two. A
///         wrong derivative is therefore found in floats, where a reference states both functions itself
///         (Number::function, verify/reference/number.h).

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "sim/tensor/tensor.h"

namespace sim {

struct ElementFunction {
  std::string name;
  std::function<double(double)> value_of_f64;
  std::function<float(float)> value_of_f32;
  std::function<double(double)> derivative_of_f64;
  std::function<float(float)> derivative_of_f32;

  std::string name_of_derivative() const { return name + "_derivative"; }
  template <typename Float>
  const std::function<Float(Float)>& value() const {
    if constexpr (std::is_same_v<Float, double>) return value_of_f64;
    if constexpr (std::is_same_v<Float, float>) return value_of_f32;
  }
  template <typename Float>
  const std::function<Float(Float)>& derivative() const {
    if constexpr (std::is_same_v<Float, double>) return derivative_of_f64;
    if constexpr (std::is_same_v<Float, float>) return derivative_of_f32;
  }
};

template <typename Value, typename Derivative>
ElementFunction element_function(std::string name, const Value& value, const Derivative& derivative) {
  static_assert(
      std::is_same_v<decltype(value(float{})), float> && std::is_same_v<decltype(derivative(float{})), float>,
      "a function of a float computes in float: 2 * x, not 2.0 * x");
  return {std::move(name), value, value, derivative, derivative};
}

/// Returns f(x), element by element.
Tensor apply(const ElementFunction& function, const Tensor& x);
/// Returns grad f'(x).
Tensor apply_backward(const ElementFunction& function, const Tensor& x, const Tensor& grad);

}  // namespace sim

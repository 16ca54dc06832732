#pragma once

/// The kernels of a CUDA device, as its host code calls them: with raw pointers into the GPU's memory,
/// counts, and a stream. Each kernel computes what the function of the same name in sim/tensor/device.h
/// does, in the order stated there. There are no tensors here and no checks.
///
/// Shapes  Counts are in elements, row after row. Pointers to sums point to f32 where the other operands are
///         bf16, otherwise to the operands' type.
/// Calls   Each function puts its work on the stream and returns. The functions are defined once for CUDA
///         (gpu/cuda) and once for a GPU played by this machine's processor (gpu/on_host).
/// Exact   the bits of the CPU device, except for those of a NaN: a GPU returns the same NaN from every
///         computation.

#include <array>
#include <cstdint>

#include "sim/tensor/kernel_parameters.h"
#include "sim/tensor/reduce_op.h"

namespace gpu {

class Stream;

enum class ElementType : std::uint8_t { f64, f32, bf16, i32 };

using sim::Activation;
using sim::Comparison;
using sim::Norm;
using sim::Ratio;
using sim::ReduceOp;
using sim::SeenKeys;
using sim::TokenLoss;

// ---- elements: element_kernels.h --------------------------------------------------------------------------

void fill(Stream* stream, ElementType type, void* out, std::int64_t count, double value);
void combine(Stream* stream, ElementType type, ReduceOp op, const void* a, const void* b, void* out,
             std::int64_t count);
void scale(Stream* stream, ElementType type, const void* a, Ratio ratio, void* out, std::int64_t count);
void compare(Stream* stream, ElementType type, Comparison comparison, const void* a, const void* b,
             std::int32_t* mask, std::int64_t count);
/// `size` is the bytes of an element: 2, 4 or 8.
void select(Stream* stream, std::int64_t size, const std::int32_t* mask, const void* a, const void* b,
            void* out, std::int64_t count);
void cast(Stream* stream, ElementType from_type, const void* from, ElementType to_type, void* to,
          std::int64_t count);
/// Folds one segment. `inputs` and `outputs` are tables of pointers, and lie in the GPU's memory.
void fold(Stream* stream, ElementType type, sim::Reduction reduction, const void* const* inputs,
          std::int64_t members, void* const* outputs, std::int64_t output_count, sim::FoldSegment segment);

void add_bias(Stream* stream, ElementType type, const void* x, const void* bias, void* out, std::int64_t rows,
              std::int64_t columns);
void add_column_sums(Stream* stream, ElementType type, const void* x, void* sums, std::int64_t rows,
                     std::int64_t columns);
/// Copies to[t * to_step + c] = from[t * from_step + c]. `size` is the bytes of an element: 2, 4 or 8.
void copy_columns(Stream* stream, std::int64_t size, const void* from, std::int64_t from_step, void* to,
                  std::int64_t to_step, std::int64_t rows, std::int64_t columns);
void lookup(Stream* stream, std::int64_t size, const void* table, std::int64_t table_rows,
            const std::int32_t* ids, std::int64_t first_id, void* out, std::int64_t tokens,
            std::int64_t columns);
void add_to_rows(Stream* stream, ElementType type, const void* rows, const std::int32_t* ids,
                 std::int64_t first_id, void* table, std::int64_t table_rows, std::int64_t tokens,
                 std::int64_t columns);
/// Sets to(i, j, k, l), a tensor of these sizes, to from[i steps[0] + j steps[1] + k steps[2] + l steps[3]].
void permute(Stream* stream, std::int64_t size, const void* from, std::array<std::int64_t, 4> steps, void* to,
             std::array<std::int64_t, 4> sizes);

void activate(Stream* stream, ElementType type, Activation function, const void* x, void* out,
              std::int64_t count);
void activate_backward(Stream* stream, ElementType type, Activation function, const void* x, const void* grad,
                       void* out, std::int64_t count);
void dropout(Stream* stream, ElementType type, const void* x, std::uint64_t key, Ratio drop, void* out,
             std::int64_t count);
void rotate(Stream* stream, ElementType type, const void* x, const void* cosines, const void* sines,
            bool backward, void* out, std::int64_t rows, std::int64_t rows_a_position, std::int64_t columns);

void adam(Stream* stream, ElementType type, const void* grad, const sim::AdamStep& step, void* param,
          void* exp_avg, void* exp_avg_sq, std::int64_t count);
void clip_factor(Stream* stream, ElementType type, const void* sum_of_squares, Ratio most, void* factor);
void scale_by(Stream* stream, ElementType type, void* x, const void* factor, std::int64_t count);
void find_nonfinite(Stream* stream, ElementType type, const void* x, std::int64_t count, void* flag);
void token_loss(Stream* stream, ElementType type, const void* parts, const std::int32_t* targets,
                const TokenLoss& loss, void* out, std::int64_t tokens);

// ---- rows: row_kernels.h ----------------------------------------------------------------------------------

/// With `stats` this is partial_softmax, otherwise softmax.
void softmax(Stream* stream, ElementType type, const void* x, std::int64_t divisor, SeenKeys keys, void* out,
             void* stats, std::int64_t rows, std::int64_t queries, std::int64_t columns);
/// `type` is that of all four tensors, which are sum tensors.
void merge_softmax(Stream* stream, ElementType type, const void* part, const void* part_stats, void* out,
                   void* stats, std::int64_t rows, std::int64_t columns);
void finish_softmax(Stream* stream, ElementType type, const void* sums, const void* stats, void* out,
                    std::int64_t rows, std::int64_t columns);
void partial_softmax_backward(Stream* stream, ElementType type, const void* x, std::int64_t divisor,
                              SeenKeys keys, const void* stats, const void* grad, const void* means, void* p,
                              void* grad_x, std::int64_t rows, std::int64_t queries, std::int64_t columns);
void softmax_backward(Stream* stream, ElementType type, const void* p, const void* grad, std::int64_t divisor,
                      void* out, std::int64_t rows, std::int64_t columns);
/// `bias` may be null.
void normalize(Stream* stream, ElementType type, Norm norm, const void* x, const void* weight,
               const void* bias, Ratio epsilon, void* out, void* stats, std::int64_t rows,
               std::int64_t columns);
/// `grad_bias` may be null.
void normalize_backward(Stream* stream, ElementType type, Norm norm, const void* x, const void* weight,
                        const void* stats, const void* grad, void* grad_x, void* grad_weight, void* grad_bias,
                        std::int64_t rows, std::int64_t columns);
void row_max(Stream* stream, ElementType type, const void* logits, std::int64_t columns, void* maxima,
             std::int64_t rows, std::int64_t width);
void argmax(Stream* stream, ElementType type, const void* x, std::int32_t* columns, std::int64_t rows,
            std::int64_t width);
void token_parts(Stream* stream, ElementType type, const void* logits, const void* maxima,
                 const std::int32_t* targets, const TokenLoss& loss, void* exps, void* parts,
                 std::int64_t tokens, std::int64_t width);
void token_loss_backward(Stream* stream, ElementType type, const void* exps, const void* parts,
                         const std::int32_t* targets, const TokenLoss& loss, const void* grad, void* out,
                         std::int64_t tokens, std::int64_t width);

// ---- products: product_kernel.h ---------------------------------------------------------------------------

/// The sizes of a product: out (rows, columns) of a (rows, terms) and b (terms, columns), batch after
/// batch. Each operand may be transposed in memory.
struct ProductSizes {
  std::int64_t batches;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t terms;
};
struct Operand {
  const void* first;
  bool transposed;
};
/// The product of bf16 operands is f32 or bf16; that of other operands has their type.
void matmul(Stream* stream, ElementType type, ProductSizes sizes, Operand a, Operand b, ElementType out_type,
            void* out, bool accumulate);

/// Loads the vendor's library. Refuses if it cannot be loaded.
void load_vendor();
/// A handle on the vendor's library for one stream (gpu/cuda/vendor.cpp).
class Vendor;
Vendor* make_vendor(Stream* stream);
void end_vendor(Vendor* vendor);
/// The same product, with its terms added in the library's own order. It multiplies in no less than the
/// operands' precision, and sums bf16 in f32.
void vendor_matmul(Vendor* vendor, ElementType type, ProductSizes sizes, Operand a, Operand b,
                   ElementType out_type, void* out, bool accumulate);

}  // namespace gpu

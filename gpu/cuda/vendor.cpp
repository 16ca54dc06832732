// This file implements the vendor's matrix product with cuBLAS.

#include <cublas_v2.h>
#include <memory>

#include "gpu/device/kernels.h"
#include "gpu/device/refusals.h"

namespace gpu {

namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    refuse_failed(call, cublasGetStatusName(status), cublasGetStatusString(status));
}

cudaDataType_t native(ElementType type) {
  if (type == ElementType::f64) return CUDA_R_64F;
  return type == ElementType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasComputeType_t compute_type(ElementType type) {
  if (type == ElementType::f64) return CUBLAS_COMPUTE_64F_PEDANTIC;
  return type == ElementType::f32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
}

}  // namespace

/// A cuBLAS handle for one stream. Streams do not share a handle, because a shared workspace would make
/// results differ from run to run.
class Vendor {
 public:
  explicit Vendor(Stream* on) : stream(on) {
    check(cublasCreate(&handle), "cublasCreate");
    check(cublasSetStream(handle, reinterpret_cast<cudaStream_t>(stream)), "cublasSetStream");
    // This mode is for bf16, where it concerns sums that are split. For f32 and f64, the compute types of
    // compute_type are the pedantic ones.
    const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)), "cublasSetMathMode");
  }
  ~Vendor() { static_cast<void>(cublasDestroy(handle)); }
  Vendor(const Vendor&) = delete;
  Vendor& operator=(const Vendor&) = delete;

  Stream* stream;
  cublasHandle_t handle = nullptr;
};

Vendor* make_vendor(Stream* stream) { return std::make_unique<Vendor>(stream).release(); }
void end_vendor(Vendor* vendor) { delete vendor; }

void vendor_matmul(Vendor* vendor, ElementType type, ProductSizes sizes, Operand a, Operand b,
                   ElementType out_type, void* out, bool accumulate) {
  if (sizes.batches * sizes.rows * sizes.columns == 0) return;
  if (sizes.terms == 0) return matmul(vendor->stream, type, sizes, a, b, out_type, out, accumulate);
  const double one64 = 1;
  const double old64 = accumulate ? 1 : 0;
  const float one32 = 1;
  const float old32 = accumulate ? 1 : 0;
  const bool is_f64 = type == ElementType::f64;
  const void* one = is_f64 ? static_cast<const void*>(&one64) : &one32;
  const void* old = is_f64 ? static_cast<const void*>(&old64) : &old32;
  // cuBLAS stores matrices by columns, so it sees ours as transposed, and the product as b a.
  check(
      cublasGemmStridedBatchedEx_64(
          vendor->handle, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
          sizes.columns, sizes.rows, sizes.terms, one, b.first, native(type),
          b.transposed ? sizes.terms : sizes.columns, sizes.terms * sizes.columns, a.first, native(type),
          a.transposed ? sizes.rows : sizes.terms, sizes.rows * sizes.terms, old, out, native(out_type),
          sizes.columns, sizes.rows * sizes.columns, sizes.batches, compute_type(type), CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace gpu

// The vendor's matrix product, with cuBLAS, which is loaded when the first handle is made.

#include <cublas_v2.h>
#include <memory>
#include <string>

#include "gpu/device/kernels.h"
#include "gpu/device/refusals.h"
#include "gpu/device/shared_library.h"

namespace gpu {

namespace {

const std::string kCublasName = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);

/// The functions of cuBLAS that are used, by the names that the library has for them.
struct CublasFunctions {
  SharedLibrary library{kCublasName.c_str(), SHARDPROOF_CUBLAS_PATH, refuse_cublas};
#define CUBLAS_FUNCTION(name) decltype(::name)* const name = library.find<decltype(::name)>(#name)
  CUBLAS_FUNCTION(cublasCreate_v2);
  CUBLAS_FUNCTION(cublasDestroy_v2);
  CUBLAS_FUNCTION(cublasGemmStridedBatchedEx_64);
  CUBLAS_FUNCTION(cublasGetStatusName);
  CUBLAS_FUNCTION(cublasGetStatusString);
  CUBLAS_FUNCTION(cublasSetMathMode);
  CUBLAS_FUNCTION(cublasSetStream_v2);
#undef CUBLAS_FUNCTION
};

const CublasFunctions& cublas() {
  static const CublasFunctions functions;
  return functions;
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    refuse_failed(call, cublas().cublasGetStatusName(status), cublas().cublasGetStatusString(status));
}

cudaDataType_t native(sim::DType type) {
  if (type == sim::DType::f64) return CUDA_R_64F;
  return type == sim::DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasComputeType_t compute_type(sim::DType type) {
  if (type == sim::DType::f64) return CUBLAS_COMPUTE_64F_PEDANTIC;
  return type == sim::DType::f32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
}

}  // namespace

/// A cuBLAS handle for one stream. Streams do not share a handle, because a shared workspace would make
/// results differ from run to run.
class Vendor {
 public:
  explicit Vendor(Stream* on) : stream(on) {
    check(cublas().cublasCreate_v2(&handle), "cublasCreate");
    check(cublas().cublasSetStream_v2(handle, reinterpret_cast<cudaStream_t>(stream)), "cublasSetStream");
    // This mode is for bf16, where it concerns sums that are split. For f32 and f64, the compute types of
    // compute_type are the pedantic ones.
    const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check(cublas().cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)), "cublasSetMathMode");
  }
  ~Vendor() { static_cast<void>(cublas().cublasDestroy_v2(handle)); }
  Vendor(const Vendor&) = delete;
  Vendor& operator=(const Vendor&) = delete;

  Stream* stream;
  cublasHandle_t handle = nullptr;
};

void load_vendor() { static_cast<void>(cublas()); }
Vendor* make_vendor(Stream* stream) { return std::make_unique<Vendor>(stream).release(); }
void end_vendor(Vendor* vendor) { delete vendor; }

void vendor_matmul(Vendor* vendor, const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                   const Tensor& out) {
  const ProductSizes sizes = sizes_of(a, form, out);
  if (sizes.batches * sizes.rows * sizes.columns == 0) return;
  if (sizes.terms == 0) return matmul(vendor->stream, a, b, form, out);
  const double one64 = 1;
  const double old64 = form.accumulate ? 1 : 0;
  const float one32 = 1;
  const float old32 = form.accumulate ? 1 : 0;
  const bool is_f64 = a.dtype() == sim::DType::f64;
  const void* one = is_f64 ? static_cast<const void*>(&one64) : &one32;
  const void* old = is_f64 ? static_cast<const void*>(&old64) : &old32;
  // cuBLAS stores matrices by columns, so it sees ours as transposed, and the product as b a.
  check(cublas().cublasGemmStridedBatchedEx_64(
            vendor->handle, form.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
            form.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, sizes.columns, sizes.rows, sizes.terms, one,
            b.data(), native(b.dtype()), form.b_transposed ? sizes.terms : sizes.columns,
            sizes.terms * sizes.columns, a.data(), native(a.dtype()),
            form.a_transposed ? sizes.rows : sizes.terms, sizes.rows * sizes.terms, old, out.data(),
            native(out.dtype()), sizes.columns, sizes.rows * sizes.columns, sizes.batches,
            compute_type(a.dtype()), CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace gpu

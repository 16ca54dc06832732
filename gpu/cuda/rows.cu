// This file defines the kernels of gpu/device/row_kernels.h for CUDA.

#include "gpu/cuda/launch.h"
#include "gpu/device/row_kernels.h"

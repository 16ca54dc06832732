// This file defines the kernels of gpu/device/row_kernels.h for a GPU played by this machine's processor.

#include "gpu/device/row_kernels.h"
#include "gpu/on_host/launch.h"

// The kernels of gpu/device/row_kernels.h, for a GPU that is played by this machine's processor.

#include "gpu/device/row_kernels.h"
#include "gpu/on_host/launch.h"

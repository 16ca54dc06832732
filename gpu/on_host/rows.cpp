// The kernels of gpu/row_kernels.h, for a GPU that is played by this machine's processor.

#include "gpu/on_host/launch.h"
#include "gpu/row_kernels.h"

#pragma once

#include "kernels/gemm/gemm.h"

namespace headwise::kernels::reference {

extern const GemmKernels kGemmKernels;

}  // namespace headwise::kernels::reference

#pragma once

#include "kernels/attention/tile.h"

namespace headwise::kernels::reference {

extern const TileKernels kTileKernels;

}  // namespace headwise::kernels::reference

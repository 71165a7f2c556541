// Race loops for the target's baseline.
#define INGOT_ISA portable
#define INGOT_ISA_NAME "portable"
#include "kernels/draws/race_impl.inc"

namespace ingot::kernels::inner {
const RaceKernels* RacePortable() { return &portable::kRace; }
}  // namespace ingot::kernels::inner

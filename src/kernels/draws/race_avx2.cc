// Race loops for avx2. Compiled with avx2 flags, so nothing here may be called before the check in instruction_set.cc.
#define INGOT_ISA avx2
#define INGOT_ISA_NAME "avx2"
#include "kernels/draws/race_inner.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/draws/race_impl.inc"
#define INGOT_TABLE &avx2::kRace
#else  // another architecture
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
const RaceKernels* RaceAvx2() { return INGOT_TABLE; }
}  // namespace ingot::kernels::inner

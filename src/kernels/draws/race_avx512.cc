// Race loops for avx512. Compiled with avx512 flags, so nothing here may be called before the check in
// instruction_set.cc.
#define INGOT_ISA avx512
#define INGOT_ISA_NAME "avx512"
#include "kernels/draws/race_inner.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "kernels/draws/race_impl.inc"
#define INGOT_TABLE &avx512::kRace
#else  // another architecture
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
const RaceKernels* RaceAvx512() { return INGOT_TABLE; }
}  // namespace ingot::kernels::inner

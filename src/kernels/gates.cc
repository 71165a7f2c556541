#include "kernels/gates.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

namespace ingot::kernels {
namespace {

template <typename T>
T Widened(T x) {
  return x;
}
float Widened(BFloat16 x) { return ToFloat(x); }

template <typename T>
void Store(Accumulator<T> x, T* to) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    *to = ToBFloat16(x);
  } else {
    *to = x;
  }
}

template <typename Acc>
struct Slopes {
  Acc value, by_gate, by_up;
};

template <typename Acc>
Slopes<Acc> GeluTanh(Acc gate, Acc up) {
  const auto root = static_cast<Acc>(std::sqrt(2 / std::numbers::pi)), cubic = static_cast<Acc>(0.044715);
  const Acc t = std::tanh(root * (gate + cubic * gate * gate * gate)), half = static_cast<Acc>(0.5);
  const Acc gelu = half * gate * (1 + t);
  const Acc slope = half * (1 + t) + half * gate * (1 - t * t) * root * (1 + 3 * cubic * gate * gate);
  return {gelu * up, slope * up, gelu};
}

template <typename Acc>
Slopes<Acc> Clamped(Acc gate, Acc up) {
  const auto limit = static_cast<Acc>(7), alpha = static_cast<Acc>(1.702);
  const Acc g = std::min(gate, limit), u = std::clamp(up, -limit, limit);
  const Acc s = 1 / (1 + std::exp(-alpha * g)), glu = g * s;
  const Acc slope = s + alpha * glu * (1 - s);
  return {glu * (u + 1), gate > limit ? Acc(0) : slope * (u + 1), up < -limit || up > limit ? Acc(0) : glu};
}

template <typename Acc>
Slopes<Acc> Sigmoid(Acc gate, Acc up) {
  const Acc s = 1 / (1 + std::exp(-gate));
  return {up * s, up * s * (1 - s), s};
}

template <typename Acc>
Slopes<Acc> Of(Gate kind, Acc gate, Acc up) {
  if (kind == Gate::kSigmoid) return Sigmoid(gate, up);
  return kind == Gate::kGeluTanh ? GeluTanh(gate, up) : Clamped(gate, up);
}

}  // namespace

template <typename T>
void Gated(Gate kind, const T* gate, const T* up, int64_t count, T* y, const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  parallel(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Store<T>(Of<Acc>(kind, Widened(gate[i]), Widened(up[i])).value, y + i);
    }
  });
}

template <typename T>
void GatedBackward(Gate kind, const T* grad, const T* gate, const T* up, int64_t count, T* grad_gate, T* grad_up,
                   const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  parallel(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Slopes<Acc> slopes = Of<Acc>(kind, Widened(gate[i]), Widened(up[i]));
      Store<T>(Widened(grad[i]) * slopes.by_gate, grad_gate + i);
      Store<T>(Widened(grad[i]) * slopes.by_up, grad_up + i);
    }
  });
}

#define INGOT_INSTANTIATE(T)                                                         \
  template void Gated<T>(Gate, const T*, const T*, int64_t, T*, const ParallelFor&); \
  template void GatedBackward<T>(Gate, const T*, const T*, const T*, int64_t, T*, T*, const ParallelFor&);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels

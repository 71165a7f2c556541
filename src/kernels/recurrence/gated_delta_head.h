// Runs the recurrence for one key head and its value heads, row by row (gated_delta.h). Shared by the forward and
// backward passes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/recurrence/gated_delta.h"

namespace ingot::kernels::delta {

template <typename T>
T Sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
// Returns log(1 + exp(x)), or x if adding 1 to exp(x) makes no difference, like torch.
template <typename T>
T Softplus(T x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

// Values for a row and value head: log of the decay, the decay, and the rate.
template <typename T>
struct Gates {
  T log_decay, decay, rate;
};

// The scalars, unit vectors, and states of one key head. Used by one thread.
template <typename T>
class HeadRun {
 public:
  HeadRun(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args)
      : shape_(shape),
        plan_(plan),
        args_(args),
        state_(static_cast<size_t>(size())),
        held_(static_cast<size_t>(size() * plan.places)),
        q_(static_cast<size_t>(shape.key_dim)),
        k_(static_cast<size_t>(shape.key_dim)),
        memory_(static_cast<size_t>(shape.value_dim)) {}

  int64_t one() const { return shape_.key_dim * shape_.value_dim; }  // elements in a value head's state
  // elements in the states of all of the key head's value heads
  int64_t size() const { return shape_.sharing() * one(); }

  const T* q() const { return q_.data(); }  // q of the row read by Load, with length 1 / sqrt(key_dim)
  const T* k() const { return k_.data(); }  // k of the same row, with length 1
  T q_inverse() const { return q_inverse_; }
  T k_inverse() const { return k_inverse_; }
  T scale() const { return 1 / std::sqrt(static_cast<T>(shape_.key_dim)); }

  // Runs all rows in order. Calls after(row, state) with the state after each row, [sharing, key_dim, value_dim].
  template <typename F>
  void Run(int64_t head, F&& after) {
    Run(head, [](int64_t, const T*) {}, after);
  }
  // Same as above, but also calls before(row, state) with the state that the row starts with.
  template <typename B, typename F>
  void Run(int64_t head, B&& before, F&& after) {
    for (int64_t row = 0; row < plan_.rows(); ++row) {
      if (!plan_.follows(row)) Begin(head, plan_.parents[static_cast<size_t>(row)]);
      before(row, state_.data());
      Load(head, row);
      for (int64_t i = 0; i < shape_.sharing(); ++i) Step(head, row, i, state_.data() + i * one(), nullptr, nullptr);
      after(row, state_.data());
      if (const int32_t place = plan_.held[static_cast<size_t>(row)]; place >= 0) {
        std::copy(state_.begin(), state_.end(), held_.begin() + place * size());
      }
    }
  }

  // Computes a row's unit vectors.
  void Load(int64_t head, int64_t row) {
    const T* u = args_.u + row * shape_.channels() + head * shape_.key_dim;
    q_inverse_ = Unit(u, scale(), q_.data());
    k_inverse_ = Unit(u + shape_.keys(), 1, k_.data());
  }

  Gates<T> GatesOf(int64_t head, int64_t row, int64_t i) const {
    const int64_t h = head * shape_.sharing() + i, at = row * shape_.value_heads + h;
    const T log_decay = -std::exp(args_.decay[h]) * Softplus(args_.step[at] + args_.step_bias[h]);
    return {log_decay, std::exp(log_decay), Sigmoid(args_.rate[at])};
  }
  const T* ValueOf(int64_t head, int64_t row, int64_t i) const {
    return args_.u + row * shape_.channels() + 2 * shape_.keys() + (head * shape_.sharing() + i) * shape_.value_dim;
  }

  // Updates value head i's state [key_dim, value_dim] with the loaded row. If not null, `error` receives v - memory,
  // and `delta` receives `error` times the rate.
  void Step(int64_t head, int64_t row, int64_t i, T* state, T* error, T* delta) {
    const int64_t keys = shape_.key_dim, values = shape_.value_dim;
    const Gates<T> gates = GatesOf(head, row, i);
    const T* v = ValueOf(head, row, i);
    T* memory = memory_.data();
    std::fill_n(memory, values, T(0));
    for (int64_t a = 0; a < keys; ++a) {
      T* s = state + a * values;
      const T k = k_[static_cast<size_t>(a)];
      for (int64_t b = 0; b < values; ++b) {
        s[b] *= gates.decay;
        memory[b] += s[b] * k;
      }
    }
    for (int64_t b = 0; b < values; ++b) {
      const T wrong = v[b] - memory[b];
      if (error != nullptr) error[b] = wrong;
      memory[b] = wrong * gates.rate;
      if (delta != nullptr) delta[b] = memory[b];
    }
    for (int64_t a = 0; a < keys; ++a) {
      T* s = state + a * values;
      const T k = k_[static_cast<size_t>(a)];
      for (int64_t b = 0; b < values; ++b) s[b] += k * memory[b];
    }
  }

  // Computes the loaded row's result for value head i: [value_dim].
  void Read(int64_t i, const T* states, T* out) const {
    const int64_t values = shape_.value_dim;
    const T* state = states + i * one();
    std::fill_n(out, values, T(0));
    for (int64_t a = 0; a < shape_.key_dim; ++a) {
      const T q = q_[static_cast<size_t>(a)];
      for (int64_t b = 0; b < values; ++b) out[b] += state[a * values + b] * q;
    }
  }

 private:
  void Begin(int64_t head, int32_t parent) {
    if (parent == kNoParent) {
      std::fill(state_.begin(), state_.end(), T(0));
    } else if (parent < 0) {
      std::copy_n(args_.states + ~parent * shape_.state() + head * size(), size(), state_.begin());
    } else {
      std::copy_n(held_.begin() + plan_.held[static_cast<size_t>(parent)] * size(), size(), state_.begin());
    }
  }

  // Writes x scaled to length `factor`. Returns 1 divided by the length of x.
  T Unit(const T* x, T factor, T* unit) const {
    constexpr T kEps = T(1e-6);
    T squares = 0;
    for (int64_t i = 0; i < shape_.key_dim; ++i) squares += x[i] * x[i];
    const T inverse = 1 / std::sqrt(squares + kEps);
    for (int64_t i = 0; i < shape_.key_dim; ++i) unit[i] = x[i] * inverse * factor;
    return inverse;
  }

  const DeltaShape shape_;
  const RowPlan& plan_;
  const DeltaArgs<T>& args_;
  std::vector<T> state_, held_;
  std::vector<T> q_, k_, memory_;
  T q_inverse_ = 0, k_inverse_ = 0;
};

}  // namespace ingot::kernels::delta

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/recurrence/gated_delta.h"
#include "kernels/recurrence/gated_delta_head.h"

namespace ingot::kernels {
namespace {

template <typename T>
T Dot(const T* a, const T* b, int64_t n) {
  constexpr int64_t kLanes = 8;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Runs the reverse recurrence for one key head. A chunk is a run of rows where each row is the child of the previous
// one. The states at the beginnings of chunks are stored, and those within are recomputed. Used by one thread.
template <typename T>
class HeadBackward {
 public:
  HeadBackward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, const T* grad_out,
               const T* by_kept, const DeltaGradients<T>& grads)
      : shape_(shape),
        plan_(plan),
        args_(args),
        grad_out_(grad_out),
        by_kept_(by_kept),
        grads_(grads),
        run_(shape, plan, args),
        last_kept_(args.kept.size()),
        grad_(Numbers(run_.size())),
        held_(Numbers(run_.size() * plan.places)),
        states_(Numbers(run_.size() * kDeltaChunk)),
        errors_(Numbers(shape.sharing() * shape.value_dim * kDeltaChunk)),
        deltas_(errors_.size()),
        by_delta_(Numbers(shape.value_dim)),
        by_q_(Numbers(shape.key_dim)),
        by_k_(Numbers(shape.key_dim)),
        decay_sums_(Numbers(shape.sharing())),
        bias_sums_(Numbers(shape.sharing())) {
    for (int64_t row = 0, length = 0; row < plan.rows(); ++row) {
      length = plan.follows(row) ? length + 1 : 0;
      if (length % kDeltaChunk == 0) chunks_.push_back(row);
    }
    begun_.resize(static_cast<size_t>(run_.size()) * chunks_.size());
  }

  void Run(int64_t head) {
    std::fill(held_.begin(), held_.end(), T(0));
    std::fill(grad_.begin(), grad_.end(), T(0));
    std::fill(decay_sums_.begin(), decay_sums_.end(), T(0));
    std::fill(bias_sums_.begin(), bias_sums_.end(), T(0));
    last_kept_ = args_.kept.size();
    size_t next = 0;
    run_.Run(
        head,
        [&](int64_t row, const T* state) {
          if (next == chunks_.size() || chunks_[next] != row) return;
          std::copy_n(state, run_.size(), begun_.begin() + static_cast<int64_t>(next++) * run_.size());
        },
        [](int64_t, const T*) {});
    for (size_t c = chunks_.size(); c-- > 0;) {
      Chunk(head, c, c + 1 < chunks_.size() ? chunks_[c + 1] : plan_.rows());
    }
    for (int64_t i = 0; i < shape_.sharing(); ++i) {
      grads_.decay[head * shape_.sharing() + i] = decay_sums_[static_cast<size_t>(i)];
      grads_.step_bias[head * shape_.sharing() + i] = bias_sums_[static_cast<size_t>(i)];
    }
  }

 private:
  static std::vector<T> Numbers(int64_t count) { return std::vector<T>(static_cast<size_t>(count)); }
  void Add(const T* from, T* to) const {
    for (int64_t i = 0; i < run_.size(); ++i) to[i] += from[i];
  }

  void Chunk(int64_t head, size_t chunk, int64_t end) {
    const int64_t begin = chunks_[chunk], width = shape_.sharing() * shape_.value_dim;
    const T* const first = begun_.data() + static_cast<int64_t>(chunk) * run_.size();
    for (int64_t row = begin; row < end; ++row) {
      T* const state = states_.data() + (row - begin) * run_.size();
      std::copy_n(row == begin ? first : state - run_.size(), run_.size(), state);
      run_.Load(head, row);
      for (int64_t i = 0; i < shape_.sharing(); ++i) {
        const int64_t at = (row - begin) * width + i * shape_.value_dim;
        run_.Step(head, row, i, state + i * run_.one(), errors_.data() + at, deltas_.data() + at);
      }
    }
    for (int64_t row = end; row-- > begin;) {
      if (row + 1 == plan_.rows() || !plan_.follows(row + 1)) std::fill(grad_.begin(), grad_.end(), T(0));
      if (const int32_t place = plan_.held[static_cast<size_t>(row)]; place >= 0) {
        T* const waiting = held_.data() + place * run_.size();
        Add(waiting, grad_.data());
        std::fill_n(waiting, run_.size(), T(0));
      }
      AddKept(head, row);
      const T* const state = states_.data() + (row - begin) * run_.size();
      Row(head, row, row == begin ? first : state - run_.size(), state, (row - begin) * width);
      if (!plan_.follows(row)) GiveToParent(head, plan_.parents[static_cast<size_t>(row)]);
    }
  }

  void AddKept(int64_t head, int64_t row) {
    while (last_kept_ > 0 && args_.kept[last_kept_ - 1].row == row) {
      --last_kept_;
      if (by_kept_ == nullptr) continue;
      Add(by_kept_ + args_.kept[last_kept_].slot * shape_.state() + head * run_.size(), grad_.data());
    }
  }

  void GiveToParent(int64_t head, int32_t parent) {
    if (parent >= 0) {
      Add(grad_.data(), held_.data() + plan_.held[static_cast<size_t>(parent)] * run_.size());
    } else if (parent != kNoParent && grads_.states != nullptr) {
      Add(grad_.data(), grads_.states + ~parent * shape_.state() + head * run_.size());
    }
  }

  // grad_ is first the gradient with respect to the row's state, and then with respect to its parent's state.
  void Row(int64_t head, int64_t row, const T* before, const T* after, int64_t at) {
    std::fill(by_q_.begin(), by_q_.end(), T(0));
    std::fill(by_k_.begin(), by_k_.end(), T(0));
    run_.Load(head, row);
    for (int64_t i = 0; i < shape_.sharing(); ++i) {
      const int64_t offset = i * run_.one();
      ValueHead(head, row, i, before + offset, after + offset, grad_.data() + offset, at + i * shape_.value_dim);
    }
    T* const by_u = grads_.u + row * shape_.channels() + head * shape_.key_dim;
    ByUnit(run_.q(), by_q_.data(), run_.q_inverse(), run_.scale(), by_u);
    ByUnit(run_.k(), by_k_.data(), run_.k_inverse(), 1, by_u + shape_.keys());
  }

  // unit = x inverse factor, inverse = (x x + eps)^(-1/2).
  void ByUnit(const T* unit, const T* by_unit, T inverse, T factor, T* by_x) const {
    const T along = Dot(unit, by_unit, shape_.key_dim) / factor;
    for (int64_t a = 0; a < shape_.key_dim; ++a) by_x[a] = inverse * (factor * by_unit[a] - unit[a] * along);
  }

  void ValueHead(int64_t head, int64_t row, int64_t i, const T* before, const T* after, T* grad, int64_t at) {
    const int64_t values = shape_.value_dim, h = head * shape_.sharing() + i, index = row * shape_.value_heads + h;
    const delta::Gates<T> gates = run_.GatesOf(head, row, i);
    const T *by_out = grad_out_ + index * values, *error = errors_.data() + at, *written = deltas_.data() + at;
    T* const by_delta = by_delta_.data();
    std::fill_n(by_delta, values, T(0));
    for (int64_t a = 0; a < shape_.key_dim; ++a) {
      T* g = grad + a * values;
      const T q = run_.q()[a], k = run_.k()[a];
      for (int64_t b = 0; b < values; ++b) {
        g[b] += q * by_out[b];
        by_delta[b] += k * g[b];
      }
      by_q_[static_cast<size_t>(a)] += Dot(after + a * values, by_out, values);
      by_k_[static_cast<size_t>(a)] += Dot(g, written, values);
    }
    const T by_rate = Dot(by_delta, error, values);
    T* const by_v = grads_.u + row * shape_.channels() + 2 * shape_.keys() + h * values;
    for (int64_t b = 0; b < values; ++b) by_v[b] = gates.rate * by_delta[b];
    // The error subtracts the decayed state's value for k.
    T by_decay = 0;
    for (int64_t a = 0; a < shape_.key_dim; ++a) {
      T* g = grad + a * values;
      const T k = run_.k()[a];
      by_k_[static_cast<size_t>(a)] -= gates.decay * Dot(before + a * values, by_v, values);
      for (int64_t b = 0; b < values; ++b) g[b] -= k * by_v[b];
      by_decay += Dot(g, before + a * values, values);
      for (int64_t b = 0; b < values; ++b) g[b] *= gates.decay;
    }
    const T by_log = by_decay * gates.decay;
    const T by_step = by_log * -std::exp(args_.decay[h]) * delta::Sigmoid(args_.step[index] + args_.step_bias[h]);
    grads_.step[index] = by_step;
    grads_.rate[index] = by_rate * gates.rate * (1 - gates.rate);
    decay_sums_[static_cast<size_t>(i)] += by_log * gates.log_decay;
    bias_sums_[static_cast<size_t>(i)] += by_step;
  }

  const DeltaShape shape_;
  const RowPlan& plan_;
  const DeltaArgs<T>& args_;
  const T* const grad_out_;
  const T* const by_kept_;
  const DeltaGradients<T> grads_;
  delta::HeadRun<T> run_;
  std::vector<int64_t> chunks_;              // their first rows
  size_t last_kept_;                         // kept rows at and after this index have been added
  std::vector<T> begun_;                     // the state before each chunk
  std::vector<T> grad_;                      // with respect to the state after the current row
  std::vector<T> held_;                      // with respect to states that wait for later children
  std::vector<T> states_, errors_, deltas_;  // for a chunk's rows
  std::vector<T> by_delta_, by_q_, by_k_, decay_sums_, bias_sums_;
};

}  // namespace

template <typename T>
void DeltaBackward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, const T* grad_out,
                   const T* by_kept, const DeltaGradients<T>& grads, const ParallelFor& parallel) {
  parallel(shape.key_heads, [&](int64_t begin, int64_t end) {
    HeadBackward<T> backward(shape, plan, args, grad_out, by_kept, grads);
    for (int64_t head = begin; head < end; ++head) backward.Run(head);
  });
}

#define INGOT_INSTANTIATE(T)                                                                                 \
  template void DeltaBackward<T>(const DeltaShape&, const RowPlan&, const DeltaArgs<T>&, const T*, const T*, \
                                 const DeltaGradients<T>&, const ParallelFor&);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels

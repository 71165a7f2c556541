#include "rollout/engine/paged_cache.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "kernels/torch/exact.h"
#include "kernels/torch/tree_attention.h"
#include "rollout/engine/host_view.h"

namespace ingot::rollout {
namespace {

// Returns the version of the C library, whose math functions may round differently in another one.
std::string LibraryVersion() {
  char version[64] = "";
  confstr(_CS_GNU_LIBC_VERSION, version, sizeof(version));
  return version;
}

// Names a build that cannot be read, which shares nothing.
std::string Unique() { return absl::StrCat("unknown ", getpid(), " ", base::Clock::Real().UnixNanos()); }

}  // namespace

at::ScalarType CacheType(const model::ModelConfig& config) {
  return config.torch_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

const std::string& Numerics() {
  static const std::string& numerics = *new std::string([] {
    const absl::StatusOr<std::string> program = base::ReadFile("/proc/self/exe", int64_t{4} << 30);
    return absl::StrCat("cpu ", kernels::InstructionSet(), " build ",
                        program.ok() ? base::Hex(base::Checksum64(*program)) : Unique(), " torch ",
                        base::Hex(base::Checksum64(at::show_config())), " ", LibraryVersion());
  }());
  return numerics;
}

int64_t ReleasePages(const at::Tensor& tensor) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  const uintptr_t begin = (start + page - 1) / page * page, end = (start + tensor.nbytes()) / page * page;
  if (begin >= end || madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) return 0;
  return static_cast<int64_t>(end - begin);
}

PagedCache::PagedCache(const model::ModelConfig& config, int64_t blocks, int64_t block_tokens, at::Device device)
    : PagedCache(config, model::SpecOf(config).layers, 0, blocks, block_tokens, device) {}

PagedCache::PagedCache(const model::ModelConfig& config, std::vector<model::LayerSpec> layers, int64_t first,
                       int64_t blocks, int64_t block_tokens, at::Device device)
    : blocks_(blocks),
      block_tokens_(block_tokens),
      first_(first),
      layers_(std::move(layers)),
      recurs_(first == 0 && !config.recurrent.layers.empty()),
      device_(device),
      model_(base::CanonicalJson(config.ToJson())),
      dtype_(CacheType(config)),
      k_(layers_.size()),
      v_(layers_.size()),
      states_(layers_.size()) {}

std::span<std::byte> PagedCache::Block(size_t plane, int32_t block) {
  const auto bytes = static_cast<size_t>(block_bytes_[plane]);
  return {static_cast<std::byte*>(planes_[plane].mutable_data_ptr()) + static_cast<size_t>(block) * bytes, bytes};
}

void PagedCache::Begin(const ForwardBatch& batch, const StepInput* step) {
  batch_ = &batch;
  step_ = step;
  if (step != nullptr) {
    slots_ = step->slots();
    return;
  }
  plans_ = c10::make_intrusive<kernels::AttentionPlans>(kernels::DeviceNumerics() == kernels::Numerics::kExact);
  if (!on_cpu()) slots_ = View(batch.slots).to(device_);
  if (recurs_) PlanStates();
}

bool PagedCache::HasDecodeSteps(at::ScalarType model) {
  Use(model);
  return !on_cpu() && model == dtype_ && kernels::HasDecodeAttention(k_.front());
}

std::optional<kernels::PageRows> PagedCache::Pages(int64_t layer, at::ScalarType type) {
  layer -= first_;
  Use(type);
  const at::Tensor& pages = k_[layer];
  if (on_cpu() || pages.scalar_type() != type || !kernels::WritesPages(pages)) return std::nullopt;
  return kernels::PageRows{pages, v_[layer], slots_};
}

at::Tensor PagedCache::Attend(int64_t layer, const model::AttentionInput& input) {
  layer -= first_;
  const at::Tensor& q = input.q;
  const at::ScalarType dtype = q.scalar_type();
  Use(dtype);
  const at::ScalarType stored = k_[layer].scalar_type();
  if (input.k.defined()) Write(layer, input.k.to(stored), input.v.to(stored));
  at::Tensor query = q.to(stored);
  if (step_ != nullptr) {
    return kernels::DecodeAttention(query.contiguous(), k_[layer], v_[layer], step_->plan(input.spec), input.spec.scale,
                                    input.sinks, input.spec.window)
        .to(dtype);
  }
  if (query.stride(2) != 1 || query.stride(1) != query.size(2)) query = query.contiguous();
  const at::Tensor out = at::empty(query.sizes(), query.options(), at::MemoryFormat::Contiguous);
  kernels::PagedTreeAttention(query, k_[layer], v_[layer], batch_->sequences, input.spec.scale, out, input.sinks,
                              input.spec.window, input.spec.soft_cap, plans_);
  return out.to(dtype);
}

void PagedCache::Clear(int64_t slot) {
  for (const std::vector<at::Tensor>* pages : {&k_, &v_}) {
    for (const at::Tensor& plane : *pages) {
      if (plane.defined()) plane.flatten(0, 1)[slot].zero_();
    }
  }
}

int64_t PagedCache::Release() {
  int64_t bytes = 0;
  for (const at::Tensor& plane : planes_)
    bytes += on_cpu() ? ReleasePages(plane) : static_cast<int64_t>(plane.nbytes());
  if (!on_cpu()) Free();
  return bytes;
}

at::Tensor PagedCache::Recur(int64_t layer, const model::RecurrentInput& input) {
  layer -= first_;
  const kernels::DeltaInput& given = input.tensors;
  const at::ScalarType dtype = given.x.scalar_type();
  Use(dtype);
  const auto stored = [&](const at::Tensor& t) { return t.to(dtype_); };
  const kernels::DeltaStates& states = states_[layer];
  return kernels::GatedDeltaForward(input.spec.shape,
                                    {stored(given.x), stored(given.step), stored(given.rate), stored(given.convolution),
                                     stored(given.step_bias), stored(given.decay)},
                                    parents_, states, kept_, states)
      .to(dtype);
}

void PagedCache::PlanStates() {
  parents_.clear();
  kept_.clear();
  for (const kernels::AttentionSequence& sequence : batch_->sequences) {
    const auto block_of = [&](int64_t position) { return sequence.block_table[position / block_tokens_]; };
    for (int64_t at = sequence.q_offset; at < sequence.q_offset + sequence.q_count; ++at) {
      const auto row = static_cast<int32_t>(parents_.size());
      parents_.push_back(at == 0                   ? kernels::kNoParent
                         : at == sequence.q_offset ? kernels::FromState(block_of(at - 1))
                                                   : row - 1);
      const bool last = at + 1 == sequence.q_offset + sequence.q_count || (at + 1) % block_tokens_ == 0;
      if (last) kept_.push_back({row, block_of(at)});
    }
  }
}

void PagedCache::Write(int64_t layer, const at::Tensor& k, const at::Tensor& v) {
  if (!on_cpu()) return kernels::WriteRows(k, v, {k_[layer], v_[layer], slots_});
  WriteOnHost(k, k_[layer]);
  if (!v_[layer].is_same(k_[layer])) WriteOnHost(v, v_[layer]);
}

void PagedCache::WriteOnHost(const at::Tensor& rows, at::Tensor& pages) const {
  const bool dense = rows.stride(2) == 1 && rows.stride(1) == rows.size(2);
  const at::Tensor source = dense ? rows : rows.contiguous();
  const int64_t size = static_cast<int64_t>(source.element_size());
  const int64_t width = source.size(1) * source.size(2) * size, stride = source.stride(0) * size;
  const auto* from = static_cast<const std::byte*>(source.const_data_ptr());
  auto* to = static_cast<std::byte*>(pages.mutable_data_ptr());
  for (size_t i = 0; i < batch_->slots.size(); ++i) {
    std::memcpy(to + batch_->slots[i] * width, from + static_cast<int64_t>(i) * stride, static_cast<size_t>(width));
  }
}

void PagedCache::Free() {
  planes_.clear();
  for (size_t i = 0; i < layers_.size(); ++i) {
    k_[i] = v_[i] = at::Tensor();
    states_[i] = {};
  }
}

void PagedCache::Allocate() {
  Free();  // before the new pages are allocated
  const at::TensorOptions options = at::dtype(dtype_).device(device_);
  // Initialized to zero because attention may read entries after a sequence's last key in its page and multiplies
  // them by zero.
  for (size_t i = 0; i < layers_.size(); ++i) {
    const model::AttentionSpec& spec = layers_[i].attention;
    if (layers_[i].recurrence.exists()) {
      states_[i] = kernels::NewDeltaStates(layers_[i].recurrence.shape, blocks_, options);
      continue;
    }
    k_[i] = at::zeros({blocks_, block_tokens_, spec.kv_heads, spec.head_dim}, options);
    v_[i] = spec.keys_are_values() ? k_[i] : at::zeros_like(k_[i]);
  }
  ListPlanes();
}

void PagedCache::ListPlanes() {
  block_bytes_.clear();
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const at::Tensor& plane : {k_[i], states_[i].state, states_[i].past}) {
      if (plane.defined()) planes_.push_back(plane);
    }
    if (v_[i].defined() && !layers_[i].attention.keys_are_values()) planes_.push_back(v_[i]);
  }
  for (const at::Tensor& plane : planes_) block_bytes_.push_back(static_cast<int64_t>(plane.nbytes()) / blocks_);
}

void PagedCache::Use(at::ScalarType model) {
  const at::ScalarType dtype = model == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  const bool fixes = !used_ && dtype_ != dtype;
  if (fixes) dtype_ = dtype;
  used_ = true;
  if (fixes || planes_.empty()) Allocate();
}

}  // namespace ingot::rollout

#include "rollout/engine/torch_runner.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <c10/core/InferenceMode.h>

#include <absl/strings/str_format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/device_failure.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/process_memory.h"
#include "kernels/torch/gated_delta.h"
#include "kernels/torch/softmax.h"
#include "kernels/torch/threads.h"
#include "kernels/torch/tree_attention.h"
#include "model/device_memory.h"
#include "model/draft_head.h"
#include "model/transformer.h"
#include "rollout/engine/engine_memory.h"
#include "rollout/engine/torch_error.h"

namespace ingot::rollout {

namespace {

absl::StatusOr<at::ScalarType> ScalarTypeOf(const weights::TensorView& tensor) {
  if (tensor.dtype == "F32") return at::kFloat;
  if (tensor.dtype == "BF16") return at::kBFloat16;
  if (tensor.dtype == "F16") return at::kHalf;
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", tensor.name, " has dtype ", tensor.dtype, "; the engine supports F32, BF16, and F16"));
}

struct RunnableTransformer final : RunnableModel {
  RunnableTransformer(std::shared_ptr<const weights::Snapshot> bytes, model::Transformer model,
                      std::optional<model::DraftHead> head, at::ScalarType type)
      : snapshot(std::move(bytes)), transformer(std::move(model)), draft_head(std::move(head)), dtype(type) {}
  const std::shared_ptr<const weights::Snapshot> snapshot;  // owns the parameters' memory; destroyed last
  const model::Transformer transformer;
  const std::optional<model::DraftHead> draft_head;
  const at::ScalarType dtype;  // of its hidden states
};

at::Tensor View(const std::vector<int64_t>& values) {
  return at::from_blob(const_cast<int64_t*>(values.data()), {static_cast<int64_t>(values.size())}, at::kLong);
}

at::Tensor View(const std::vector<float>& values) {
  return at::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())}, at::kFloat);
}

// Returns the configured type for the weights, which arrive later.
at::ScalarType CacheType(const model::ModelConfig& config) {
  return config.torch_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

// Returns the version of the C library, whose math functions may round differently in another one.
std::string LibraryVersion() {
  char version[64] = "";
  confstr(_CS_GNU_LIBC_VERSION, version, sizeof(version));
  return version;
}

// Names a build that cannot be read, which shares nothing.
std::string Unique() { return absl::StrCat("unknown ", getpid(), " ", base::Clock::Real().UnixNanos()); }

// Names everything besides the weights and the configuration that may change the bits of KV on the CPU. Another build
// may round differently.
const std::string& Numerics() {
  static const std::string& numerics = *new std::string([] {
    const absl::StatusOr<std::string> program = base::ReadFile("/proc/self/exe", int64_t{4} << 30);
    return absl::StrCat("cpu ", kernels::InstructionSet(), " build ",
                        program.ok() ? base::Hex(base::Checksum64(*program)) : Unique(), " torch ",
                        base::Hex(base::Checksum64(at::show_config())), " ", LibraryVersion());
  }());
  return numerics;
}

// Returns the whole memory pages inside a tensor to the system, and their number of bytes. They are zero afterwards.
int64_t ReleasePages(const at::Tensor& tensor) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  const uintptr_t begin = (start + page - 1) / page * page, end = (start + tensor.nbytes()) / page * page;
  if (begin >= end || madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) return 0;
  return static_cast<int64_t>(end - begin);
}

// Holds every layer's key and value pages (shared if keys are values) and the batch being computed. Attention computes
// in the model's type, like the trainer: bf16 on bf16 pages, everything else on fp32.
//
// A recurrent layer has a state per block instead of pages: the state after the last row written into the block. A row
// continues from the state of the block that holds the previous row. Requests share only whole blocks and never write
// into a shared block, so a cached prompt continues from the state after its last shared block.
class PagedCache final : public model::AttentionBackend, public KvPages {
 public:
  PagedCache(const model::ModelConfig& config, int64_t blocks, int64_t block_tokens, at::Device device)
      : blocks_(blocks),
        block_tokens_(block_tokens),
        layers_(model::SpecOf(config).layers),
        recurs_(!config.recurrent.layers.empty()),
        model_(base::CanonicalJson(config.ToJson())),
        k_(layers_.size()),
        v_(layers_.size()),
        states_(layers_.size()) {
    while (layers_[attends_].recurrence.exists()) ++attends_;  // the family has such a layer
    Allocate(at::dtype(CacheType(config)).device(device));
  }

  bool on_cpu() const { return pages().is_cpu(); }
  // Fixes the type of the pages, which otherwise the first pass does.
  void Use(at::ScalarType model) {
    if (!used_) FixType(model);
  }

  // KvPages.
  const std::vector<int64_t>& block_bytes() const override { return block_bytes_; }
  std::span<std::byte> Block(size_t plane, int32_t block) override {
    const auto bytes = static_cast<size_t>(block_bytes_[plane]);
    return {static_cast<std::byte*>(planes_[plane].mutable_data_ptr()) + static_cast<size_t>(block) * bytes, bytes};
  }
  std::string dtype() const override { return pages().scalar_type() == at::kBFloat16 ? "BF16" : "F32"; }
  std::string model() const override { return model_; }
  std::string numerics() const override { return Numerics(); }

  void Begin(const ForwardBatch& batch) {
    batch_ = &batch;
    plans_ = c10::make_intrusive<kernels::AttentionPlans>();
    if (!pages().is_cpu()) slots_ = View(batch.slots).to(pages().device());
    if (recurs_) PlanStates();
  }

  at::Tensor Attend(int64_t layer, const model::AttentionInput& input) override {
    const at::Tensor &q = input.q, &k = input.k, &v = input.v;
    const at::ScalarType dtype = q.scalar_type();
    if (!used_) FixType(dtype);
    const at::ScalarType stored = k_[layer].scalar_type();
    Write(k.to(stored), k_[layer]);
    if (!input.spec.keys_are_values()) Write(v.to(stored), v_[layer]);
    at::Tensor query = q.to(stored);
    if (query.stride(2) != 1 || query.stride(1) != query.size(2)) query = query.contiguous();
    const at::Tensor out = at::empty(query.sizes(), query.options(), at::MemoryFormat::Contiguous);
    kernels::PagedTreeAttention(query, k_[layer], v_[layer], batch_->sequences, input.spec.scale, out, input.sinks,
                                input.spec.window, input.spec.soft_cap, plans_);
    return out.to(dtype);
  }

  // Returns the pages of all layers to the system. They are zero when they are used again.
  int64_t Release() {
    int64_t bytes = 0;
    for (const at::Tensor& plane : planes_) bytes += ReleasePages(plane);
    return bytes;
  }

  at::Tensor Recur(int64_t layer, const model::RecurrentInput& input) override {
    const kernels::DeltaInput& given = input.tensors;
    const at::ScalarType dtype = given.x.scalar_type();
    if (!used_) FixType(dtype);
    const auto stored = [&](const at::Tensor& t) { return t.to(pages().scalar_type()); };
    const kernels::DeltaStates& states = states_[layer];
    return kernels::GatedDeltaForward(input.spec.shape,
                                      {stored(given.x), stored(given.step), stored(given.rate),
                                       stored(given.convolution), stored(given.step_bias), stored(given.decay)},
                                      parents_, states, kept_, states)
        .to(dtype);
  }

 private:
  const at::Tensor& pages() const { return k_[attends_]; }

  // Plans the rows' parents and the rows after which a block stores its state: the last row of each block.
  void PlanStates() {
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

  // Writes row i of `rows` to slot i.
  void Write(const at::Tensor& rows, at::Tensor& pages) const {
    if (!pages.is_cpu()) {
      pages.flatten(0, 1).index_copy_(0, slots_, rows);
      return;
    }
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

  void Allocate(const at::TensorOptions& options) {
    planes_.clear();  // they hold the earlier pages
    // Initialized to zero because attention may read entries after a sequence's last key in its page and multiplies
    // them by zero.
    for (size_t i = 0; i < layers_.size(); ++i) {
      const model::AttentionSpec& spec = layers_[i].attention;
      k_[i] = v_[i] = at::Tensor();
      states_[i] = {};
      if (layers_[i].recurrence.exists()) {
        states_[i] = kernels::NewDeltaStates(layers_[i].recurrence.shape, blocks_, options);
        continue;
      }
      k_[i] = at::zeros({blocks_, block_tokens_, spec.kv_heads, spec.head_dim}, options);
      v_[i] = spec.keys_are_values() ? k_[i] : at::zeros_like(k_[i]);
    }
    ListPlanes();
  }

  void ListPlanes() {
    block_bytes_.clear();
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (const at::Tensor& plane : {k_[i], states_[i].state, states_[i].past}) {
        if (plane.defined()) planes_.push_back(plane);
      }
      if (v_[i].defined() && !layers_[i].attention.keys_are_values()) planes_.push_back(v_[i]);
    }
    for (const at::Tensor& plane : planes_) block_bytes_.push_back(static_cast<int64_t>(plane.nbytes()) / blocks_);
  }

  // The configuration's dtype was only a guess. The first weights determine the type.
  void FixType(at::ScalarType model) {
    const at::ScalarType dtype = model == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
    used_ = true;
    if (pages().scalar_type() != dtype) Allocate(pages().options().dtype(dtype));
  }

  const int64_t blocks_, block_tokens_;
  const std::vector<model::LayerSpec> layers_;
  const bool recurs_;
  const std::string model_;
  std::vector<at::Tensor> planes_;    // [blocks, ...]: keys, values, and states of all layers
  std::vector<int64_t> block_bytes_;  // by plane
  size_t attends_ = 0;                // the first layer with pages
  std::vector<at::Tensor> k_, v_;
  std::vector<kernels::DeltaStates> states_;  // for recurrent layers, by block
  const ForwardBatch* batch_ = nullptr;
  c10::intrusive_ptr<kernels::AttentionPlans> plans_;  // of the batch
  at::Tensor slots_;                                   // on the device; unused on the CPU
  std::vector<int32_t> parents_;
  std::vector<kernels::KeptState> kept_;
  bool used_ = false;
};

class TorchRunner final : public ModelRunner {
 public:
  TorchRunner(const model::ModelConfig& config, const EngineOptions& options, at::Device device,
              std::shared_ptr<kernels::ComputeMember> compute)
      : config_(config),
        device_(device),
        threads_(options.threads),
        compute_(std::move(compute)),
        eos_ids_(config.eos_token_ids.begin(), config.eos_token_ids.end()),
        cache_(config, options.kv_cache_tokens / options.kv_block_tokens, options.kv_block_tokens, device) {
    if (options.kv_store.on()) Numerics();  // reads this program, for which no step should wait
  }

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t context_length() const override { return config_.max_position_embeddings; }
  const std::vector<int32_t>& eos_ids() const override { return eos_ids_; }
  int64_t max_weight_bytes() const override { return MaxWeightBytes(config_); }
  // A recurrent layer's state has no rows.
  bool can_take_back() const override { return config_.recurrent.layers.empty(); }
  KvPages* Pages(const RunnableModel& model) override {
    if (!cache_.on_cpu()) return nullptr;
    cache_.Use(static_cast<const RunnableTransformer&>(model).dtype);
    return &cache_;
  }
  void BindThread() override { kernels::UseThreads(threads_); }
  void SetComputing(bool computing) override {
    if (computing == computing_.has_value()) return;
    computing ? static_cast<void>(computing_.emplace(compute_.get())) : computing_.reset();
  }

  absl::StatusOr<int64_t> ReleaseMemory() override {
    if (!device_.is_cpu()) {
      return absl::UnimplementedError(
          "an engine can share its device with the trainer only on CPUs: set cluster.placement to split");
    }
    // Not slots_: requests draft from them as soon as their KV is computed again.
    rows_ = normalizers_ = hidden_ = drafted_ = draft_rows_ = at::Tensor();
    return cache_.Release();
  }

  absl::StatusOr<std::shared_ptr<const RunnableModel>> Load(
      std::shared_ptr<const weights::Snapshot> snapshot) override {
    try {
      std::map<std::string, at::Tensor> tensors;
      model::DraftTensors draft;
      for (size_t i = 0; i < snapshot->size(); ++i) {
        const weights::TensorView view = snapshot->view(i);
        INGOT_ASSIGN_OR_RETURN(const at::ScalarType dtype, ScalarTypeOf(view));
        (view.role == v1::TENSOR_DRAFT ? draft : tensors)[view.name] = OnDevice(view, dtype);
      }
      const model::ModelConfig config = WithAdaptersOf(tensors);
      INGOT_RETURN_IF_ERROR(config.Validate());
      INGOT_ASSIGN_OR_RETURN(model::Parameters parameters, model::Parameters::FromTensors(config, std::move(tensors)));
      const at::ScalarType dtype = parameters.at("model.embed_tokens.weight").scalar_type();
      base::MutexLock lock(mu_);  // tables for a long context take a second, so they are made once
      INGOT_ASSIGN_OR_RETURN(model::Transformer transformer,
                             model::Transformer::Create(config, std::move(parameters), rope_));
      rope_ = transformer.rope();
      std::optional<model::DraftHead> head;
      if (!draft.empty()) {
        INGOT_ASSIGN_OR_RETURN(head, model::DraftHead::Create(draft, transformer));
      }
      return std::make_shared<const RunnableTransformer>(std::move(snapshot), std::move(transformer), std::move(head),
                                                         dtype);
    } catch (const std::exception& error) {
      return FromTorchException(error, "loading weights into the rollout engine");
    }
  }

  absl::StatusOr<std::span<const float>> Forward(const RunnableModel& model, const ForwardBatch& batch) override {
    try {
      const c10::InferenceMode no_autograd;
      const auto& runnable = static_cast<const RunnableTransformer&>(model);
      const model::Transformer& transformer = runnable.transformer;
      hidden_.reset();
      cache_.Begin(batch);
      const at::Tensor hidden = Hidden(transformer, batch);
      if (batch.sampled_rows.empty()) return std::span<const float>();
      const bool all = batch.sampled_rows.size() == batch.token_ids.size();
      const at::Tensor sampled = all ? hidden : hidden.index_select(0, View(batch.sampled_rows).to(device_));
      if (runnable.draft_head.has_value()) hidden_ = sampled;
      const kernels::Policy policy(transformer.Logits(sampled), View(batch.temperatures).to(device_));
      if (batch.want_normalizers) normalizers_ = policy.LogNormalizers().to(at::kCPU);
      rows_ = policy.LogSoftmax(/*overwrite_logits=*/true).to(at::kCPU);
      return std::span<const float>(rows_.const_data_ptr<float>(), static_cast<size_t>(rows_.numel()));
    } catch (const std::exception& error) {
      return FromTorchException(error, "a forward pass of the rollout engine");
    }
  }

  std::span<const uint16_t> Routes() const override { return routes_; }

  bool KeepHidden(size_t row, size_t slot) override {
    if (!hidden_.defined()) return false;
    try {
      const c10::InferenceMode no_autograd;
      if (slot >= slots_.size()) slots_.resize(slot + 1);
      at::Tensor& kept = slots_[slot];
      const at::Tensor hidden = hidden_[static_cast<int64_t>(row)];
      if (kept.defined() && kept.scalar_type() == hidden.scalar_type()) {
        kept.copy_(hidden);
      } else {
        kept = hidden.clone();
      }
      return true;
    } catch (const std::exception&) {
      return false;  // no memory, or a device that failed, which the next forward pass reports
    }
  }

  absl::StatusOr<DraftRows> Draft(const RunnableModel& model, const DraftBatch& batch) override {
    try {
      const c10::InferenceMode no_autograd;
      const std::optional<model::DraftHead>& head = static_cast<const RunnableTransformer&>(model).draft_head;
      if (!head.has_value()) return absl::FailedPreconditionError("the version has no draft head");
      drafted_ = head->Hidden(DraftInput(batch), View(batch.token_ids).to(device_));
      const at::Tensor logits = head->Logits(drafted_).to(at::kFloat);
      draft_rows_ = logits.div_(View(batch.temperatures).to(device_).unsqueeze(1)).to(at::kCPU).contiguous();
      return DraftRows{{draft_rows_.const_data_ptr<float>(), static_cast<size_t>(draft_rows_.numel())},
                       static_cast<size_t>(draft_rows_.size(1)),
                       head->ids()};
    } catch (const std::exception& error) {
      return FromTorchException(error, "the draft head of the rollout engine");
    }
  }

  std::span<const float> LogNormalizers() const override {
    return {normalizers_.const_data_ptr<float>(), static_cast<size_t>(normalizers_.numel())};
  }

 private:
  // A tensor's bytes on the device. Versions share the tensors that they have in common, such as an adapter's base.
  struct Uploaded {
    uint64_t checksum = 0;
    c10::weak_intrusive_ptr<at::TensorImpl> tensor;
  };

  // Returns a view of the tensor on the CPU, and its bytes on other devices.
  at::Tensor OnDevice(const weights::TensorView& view, at::ScalarType dtype) {
    auto* bytes = const_cast<std::byte*>(view.bytes.data());  // torch cannot view constant memory
    const at::Tensor host = at::from_blob(bytes, view.shape, at::TensorOptions().dtype(dtype));
    if (device_.is_cpu()) return host;
    base::MutexLock lock(mu_);
    const auto found = uploaded_.find(view.name);
    if (found != uploaded_.end() && found->second.checksum == view.checksum) {
      const at::Tensor shared(found->second.tensor.lock());
      if (shared.defined() && shared.scalar_type() == dtype && shared.sizes() == at::IntArrayRef(view.shape)) {
        return shared;
      }
    }
    at::Tensor tensor = host.to(device_);
    uploaded_.insert_or_assign(view.name, Uploaded{view.checksum, tensor.getIntrusivePtr()});
    return tensor;
  }

  // Returns the hidden states that the batch's rows read.
  at::Tensor DraftInput(const DraftBatch& batch) const {
    if (!batch.first) return drafted_.index_select(0, View(batch.from).to(device_));
    std::vector<at::Tensor> rows;
    for (const int64_t slot : batch.from) rows.push_back(slots_.at(static_cast<size_t>(slot)));
    return at::stack(rows);
  }

  at::Tensor Hidden(const model::Transformer& transformer, const ForwardBatch& batch) {
    const at::Tensor ids = View(batch.token_ids).to(device_), positions = View(batch.positions).to(device_);
    if (!batch.want_routes || config_.routes_per_token() == 0) {
      routes_.clear();
      return transformer.Hidden(ids, positions, cache_);
    }
    const at::Tensor sampled = View(batch.sampled_rows);
    std::vector<at::Tensor> routes;  // for layers with experts, [sampled rows, per_token]
    at::Tensor x = transformer.Embed(ids);
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      model::Aux aux;
      aux.measure = false;
      x = transformer.RunLayer(layer, x, positions, cache_, &aux);
      if (aux.routes.defined()) routes.push_back(aux.routes.to(at::kCPU).index_select(0, sampled));
    }
    const at::Tensor all = at::cat(routes, 1);
    const int64_t* experts = all.const_data_ptr<int64_t>();
    routes_.assign(experts, experts + all.numel());
    return transformer.Norm(x);
  }

  // A model without adapters may get versions that each have their own adapters. In that case, alpha equals the rank
  // because the version's B includes the scale.
  model::ModelConfig WithAdaptersOf(const std::map<std::string, at::Tensor>& tensors) const {
    model::ModelConfig config = config_;
    if (config.lora.rank > 0) return config;
    std::set<std::string> targets;
    for (const auto& [name, tensor] : tensors) {
      constexpr std::string_view kEnd = ".lora_A.weight";
      if (!name.ends_with(kEnd)) continue;
      targets.insert(model::AdapterTarget(name.substr(0, name.size() - kEnd.size())));
      config.lora.rank = tensor.size(0);
      config.lora.alpha = static_cast<double>(config.lora.rank);
    }
    config.lora.targets.assign(targets.begin(), targets.end());
    return config;
  }

  const model::ModelConfig config_;
  const at::Device device_;
  const int32_t threads_;
  const std::shared_ptr<kernels::ComputeMember> compute_;  // null = threads are not lent
  std::optional<kernels::Computing> computing_;
  const std::vector<int32_t> eos_ids_;
  PagedCache cache_;
  at::Tensor rows_, normalizers_;
  at::Tensor hidden_;                // of the last Forward's sampled rows; undefined = its model has no draft head
  std::vector<at::Tensor> slots_;    // KeepHidden's
  at::Tensor drafted_, draft_rows_;  // the last Draft's hidden states and result
  std::vector<uint16_t> routes_;
  base::Mutex mu_;
  std::shared_ptr<const model::RopeTables> rope_ ABSL_GUARDED_BY(mu_);  // shared by all versions
  std::map<std::string, Uploaded> uploaded_ ABSL_GUARDED_BY(mu_);       // newest by name; empty on the CPU
};

absl::Status CheckStoreDevice(const EngineOptions& options, const std::string& device) {
  if (!options.kv_store.on() || device == "cpu") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rollout.kv_store.path is set, but the KV cache is on ", device,
                                                 ", from which it is not copied: remove the key, or use device=cpu"));
}

}  // namespace

absl::Status CheckCacheFits(const model::ModelConfig& config, const EngineOptions& options, const std::string& device) {
  const bool on_host = device == "cpu";
  const auto needed = static_cast<double>(CacheBytes(config, options));
  const double of_token = needed / static_cast<double>(options.kv_cache_tokens);
  const auto available =
      static_cast<double>(on_host ? base::AvailableMemory() : model::AvailableDeviceMemory(at::Device(device)));
  if (needed <= available) return absl::OkStatus();
  const int64_t state = model::SpecOf(config).state_bytes(static_cast<int64_t>(c10::elementSize(CacheType(config))));
  const std::string states = state == 0 ? ""
                                        : absl::StrFormat(
                                              "; each block of rollout.kv_block_tokens=%d tokens holds %.3g MB of "
                                              "recurrent state: larger blocks need less memory",
                                              options.kv_block_tokens, static_cast<double>(state) * 1e-6);
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the KV cache of rollout.kv_cache_tokens=%d tokens needs %.3g GB, but only %.3g GB is free%s: %d tokens "
      "would fit%s",
      options.kv_cache_tokens, needed * 1e-9, available * 1e-9, on_host ? "" : " on " + device,
      static_cast<int64_t>(available / of_token), states));
}

int64_t MaxWeightBytes(const model::ModelConfig& config) {
  const int64_t tied_head = config.tie_word_embeddings ? config.vocab_size * config.hidden_size : 0;
  const int64_t elements = config.ParameterCount() + tied_head + model::DraftHead::MaxElements(config);
  return elements * static_cast<int64_t>(sizeof(float));
}

int64_t CacheBytes(const model::ModelConfig& config, const EngineOptions& options) {
  return CacheBytes(config, options, static_cast<int>(c10::elementSize(CacheType(config))));
}

absl::StatusOr<std::unique_ptr<ModelRunner>> NewTorchRunner(const model::ModelConfig& config,
                                                            const EngineOptions& options, const std::string& device,
                                                            std::shared_ptr<kernels::ComputeMember> compute) {
  INGOT_RETURN_IF_ERROR(config.Validate());
  INGOT_RETURN_IF_ERROR(options.Validate());
  try {
    INGOT_RETURN_IF_ERROR(config.CheckDevice(device));
    INGOT_RETURN_IF_ERROR(CheckCacheFits(config, options, device));
    INGOT_RETURN_IF_ERROR(CheckStoreDevice(options, device));
    return std::make_unique<TorchRunner>(config, options, at::Device(device), std::move(compute));
  } catch (const std::exception& error) {
    const absl::Status status = FromTorchException(error, "starting the rollout engine");
    const std::string where = absl::StrCat("device ", device);
    if (absl::IsResourceExhausted(status) || base::IsDeviceFailure(status)) return base::Annotate(status, where);
    return absl::UnavailableError(absl::StrCat(where, ": ", status.message()));
  }
}

}  // namespace ingot::rollout

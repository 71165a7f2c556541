#include "rollout/engine/torch_runner.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <absl/strings/str_format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/device_failure.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process_memory.h"
#include "kernels/torch/race.h"
#include "kernels/torch/softmax.h"
#include "kernels/torch/threads.h"
#include "model/device_memory.h"
#include "model/draft_head.h"
#include "model/mtp_head.h"
#include "model/transformer.h"
#include "rollout/engine/decode_graphs.h"
#include "rollout/engine/engine_memory.h"
#include "rollout/engine/host_view.h"
#include "rollout/engine/mtp_runner.h"
#include "rollout/engine/paged_cache.h"
#include "rollout/engine/step_input.h"
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
                      std::optional<model::DraftHead> head, std::optional<model::DraftHead> shadow,
                      std::optional<model::MtpHead> mtp, at::ScalarType type)
      : snapshot(std::move(bytes)),
        transformer(std::move(model)),
        draft_head(std::move(head)),
        shadow_head(std::move(shadow)),
        mtp_head(std::move(mtp)),
        dtype(type) {}
  bool drafts() const { return draft_head.has_value() || mtp_head.has_value(); }
  const std::shared_ptr<const weights::Snapshot> snapshot;  // owns the parameters' memory; destroyed last
  const model::Transformer transformer;
  const std::optional<model::DraftHead> draft_head, shadow_head;
  const std::optional<model::MtpHead> mtp_head;  // absent if there is a draft_head
  const at::ScalarType dtype;                    // of its hidden states
  const uint64_t serial = ++last_serial;         // of no other model of this process

  static inline std::atomic<uint64_t> last_serial = 0;
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
        speculates_(config.recurrent.layers.empty() && Uses(options, "mtp")),
        cache_(config, options.kv_cache_tokens / options.kv_block_tokens, options.kv_block_tokens, device),
        mtp_(config, options.kv_cache_tokens / options.kv_block_tokens, options.kv_block_tokens, device),
        step_(model::SpecOf(config).layers, options.kv_cache_tokens / options.kv_block_tokens, options.kv_block_tokens,
              device) {
    if (options.kv_store.on()) Numerics();  // reads this program, for which no step should wait
    if (device.is_cpu() || !options.shares_device) cache_.Allocate();
    if (!device.is_cpu() && options.cuda_graphs && config.routes_per_token() == 0) graphs_.emplace();
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
    try {
      // Not slots_: requests draft from them as soon as their KV is computed again.
      rows_ = normalizers_ = hidden_ = drafted_ = draft_rows_ = at::Tensor();
      if (graphs_.has_value()) graphs_->Drop();
      step_.Release();
      const int64_t bytes = cache_.Release() + mtp_.Release();
      if (!device_.is_cpu()) model::ReleaseDeviceMemory(device_);
      return bytes;
    } catch (const std::exception& error) {
      return FromTorchException(error, "parking the rollout engine");
    }
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
      std::optional<model::DraftHead> head, shadow;
      std::optional<model::MtpHead> mtp;
      if (const model::DraftTensors frozen = model::TakeShadow(&draft); !frozen.empty()) {
        INGOT_ASSIGN_OR_RETURN(shadow, model::DraftHead::Create(frozen, transformer));
      }
      if (model::MtpTensors published = model::MtpOfDraft(config_, draft); !published.empty()) {
        INGOT_ASSIGN_OR_RETURN(mtp, model::MtpHead::Create(published, transformer));
      } else if (!draft.empty()) {
        INGOT_ASSIGN_OR_RETURN(head, model::DraftHead::Create(draft, transformer));
      }
      return std::make_shared<const RunnableTransformer>(std::move(snapshot), std::move(transformer), std::move(head),
                                                         std::move(shadow), std::move(mtp), dtype);
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
      const bool decodes = step_.possible() && cache_.HasDecodeSteps(runnable.dtype) && step_.Plan(batch);
      if (decodes && graphs_.has_value() && !batch.want_normalizers) {
        if (const StepRoom room = DecodeGraphs::RoomFor(step_.least()); room.rows > 0) {
          return ForwardGraph(runnable, batch, room);
        }
      }
      if (decodes) step_.Upload(step_.least());
      cache_.Begin(batch, decodes ? &step_ : nullptr);
      const at::Tensor hidden =
          decodes ? Hidden(transformer, batch, step_.ids(), step_.positions())
                  : Hidden(transformer, batch, View(batch.token_ids).to(device_), View(batch.positions).to(device_));
      FollowMtp(runnable, batch, hidden);
      if (batch.sampled_rows.empty()) return std::span<const float>();
      const bool all = batch.sampled_rows.size() == batch.token_ids.size();
      const at::Tensor sampled = all ? hidden : hidden.index_select(0, View(batch.sampled_rows).to(device_));
      if (KeepsHidden(runnable)) hidden_ = sampled;
      const kernels::Policy policy(transformer.Logits(sampled),
                                   decodes ? step_.temperatures() : View(batch.temperatures).to(device_));
      if (batch.want_normalizers) normalizers_ = policy.LogNormalizers().to(at::kCPU);
      const at::Tensor rows = policy.LogSoftmax(/*overwrite_logits=*/true);
      rows_ = draws() ? Draw(rows, batch.races, decodes ? step_.seeds() : at::Tensor()) : rows;
      return HostRows();
    } catch (const std::exception& error) {
      return FromTorchException(error, "a forward pass of the rollout engine");
    }
  }

  // On a CPU, the engine draws from the rows where they are.
  bool draws() const override { return !device_.is_cpu(); }
  std::span<const DrawnId> Drawn() const override { return drawn_ids_; }
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

  bool has_shadow(const RunnableModel& model) const override {
    return static_cast<const RunnableTransformer&>(model).shadow_head.has_value();
  }

  absl::StatusOr<DraftRows> Draft(const RunnableModel& model, const DraftBatch& batch) override {
    try {
      const c10::InferenceMode no_autograd;
      const auto& runnable = static_cast<const RunnableTransformer&>(model);
      if (!(batch.shadow ? runnable.shadow_head.has_value() : runnable.drafts())) {
        return absl::FailedPreconditionError("the version has no draft head");
      }
      const std::optional<model::DraftHead>& head = batch.shadow ? runnable.shadow_head : runnable.draft_head;
      drafted_ = head.has_value() ? head->Hidden(DraftInput(batch), View(batch.token_ids).to(device_))
                                  : mtp_.Draft(*runnable.mtp_head, batch, DraftInput(batch));
      const at::Tensor logits =
          (head.has_value() ? head->Logits(drafted_) : runnable.mtp_head->Logits(drafted_)).to(at::kFloat);
      draft_rows_ = logits.div_(View(batch.temperatures).to(device_).unsqueeze(1)).to(at::kCPU).contiguous();
      return DraftRows{{draft_rows_.const_data_ptr<float>(), static_cast<size_t>(draft_rows_.numel())},
                       static_cast<size_t>(draft_rows_.size(1)),
                       head.has_value() ? std::span<const int32_t>(head->ids()) : std::span<const int32_t>()};
    } catch (const std::exception& error) {
      return FromTorchException(error, "the draft head of the rollout engine");
    }
  }

  std::span<const float> LogNormalizers() const override {
    return {normalizers_.const_data_ptr<float>(), static_cast<size_t>(normalizers_.numel())};
  }

 private:
  static bool Uses(const EngineOptions& options, std::string_view drafter) {
    const std::vector<std::string>& all = options.speculation.drafters;
    return std::find(all.begin(), all.end(), drafter) != all.end();
  }

  std::span<const float> HostRows() const {
    return {rows_.const_data_ptr<float>(), static_cast<size_t>(rows_.numel())};
  }

  bool KeepsHidden(const RunnableTransformer& runnable) const {
    const bool drafts = runnable.draft_head.has_value() || runnable.shadow_head.has_value();
    return drafts || (speculates_ && runnable.mtp_head.has_value());
  }

  // Forward for the step that step_ has planned, as a graph.
  absl::StatusOr<std::span<const float>> ForwardGraph(const RunnableTransformer& runnable, const ForwardBatch& batch,
                                                      const StepRoom& room) {
    step_.Upload(room);
    cache_.Begin(batch, &step_);
    routes_.clear();
    const auto step = [&]() -> StepResults {
      const at::Tensor hidden = runnable.transformer.Hidden(step_.ids(), step_.positions(), cache_);
      const kernels::Policy policy(runnable.transformer.Logits(hidden), step_.temperatures());
      const at::Tensor rows = policy.LogSoftmax(/*overwrite_logits=*/true);
      const auto [winners, logprobs] = kernels::RaceRows(rows, step_.seeds());
      return {hidden, rows, winners, logprobs};
    };
    const StepResults results = graphs_->Run(runnable.serial, room, step_.ids(), step);
    const auto count = static_cast<int64_t>(batch.token_ids.size());
    const at::Tensor hidden = results.hidden.narrow(0, 0, count);
    FollowMtp(runnable, batch, hidden);
    if (KeepsHidden(runnable)) hidden_ = hidden;
    drawn_ids_.clear();
    rows_ = ToHost(results.rows.narrow(0, 0, count), batch.races, results.winners, results.logprobs);
    return HostRows();
  }

  // Runs the whole races on the device, and returns the other rows on the CPU. Neither needs a copy of the rows on the
  // device: races of the other rows are run too. `seeds`: the races' on the device; undefined = they are copied there.
  at::Tensor Draw(const at::Tensor& rows, const std::vector<RowRace>& races, at::Tensor seeds) {
    std::vector<int64_t> of_races;
    int64_t others = 0;
    for (const RowRace& race : races) {
      of_races.push_back(static_cast<int64_t>(race.seed));
      others += race.whole ? 0 : 1;
    }
    drawn_ids_.clear();
    if (others == rows.size(0)) return rows.to(at::kCPU);  // one copy for all
    if (!seeds.defined()) seeds = View(of_races).to(device_);
    const auto [winners, logprobs] = kernels::RaceRows(rows, seeds);
    return ToHost(rows, races, winners, logprobs);
  }

  // Copies the winners of whole races to drawn_ids_, and returns the other rows on the CPU.
  at::Tensor ToHost(const at::Tensor& rows, const std::vector<RowRace>& races, const at::Tensor& winners,
                    const at::Tensor& logprobs) {
    const int64_t others = std::count_if(races.begin(), races.end(), [](const RowRace& race) { return !race.whole; });
    if (others == rows.size(0)) return rows.to(at::kCPU);  // one copy for all
    const at::Tensor ids = winners.to(at::kCPU), of_ids = logprobs.to(at::kCPU);
    for (int64_t i = 0; i < rows.size(0); ++i) {
      if (!races[static_cast<size_t>(i)].whole) continue;
      drawn_ids_.push_back({static_cast<int32_t>(ids.const_data_ptr<int64_t>()[i]), of_ids.const_data_ptr<float>()[i]});
    }
    at::Tensor kept = at::empty({others, rows.size(1)}, at::kFloat);
    for (int64_t i = 0, at = 0; i < rows.size(0); ++i) {
      if (!races[static_cast<size_t>(i)].whole) kept[at++].copy_(rows[i]);
    }
    return kept;
  }

  // Drafts cannot change a result, so an error only ends the drafts.
  void FollowMtp(const RunnableTransformer& runnable, const ForwardBatch& batch, const at::Tensor& hidden) {
    if (!speculates_ || !runnable.mtp_head.has_value()) return;
    try {
      mtp_.Follow(*runnable.mtp_head, batch, hidden);
    } catch (const std::exception& error) {
      speculates_ = false;
      mtp_.Drop();
      INGOT_LOG(warn, "rollout: the model's prediction layer failed and is not used again: {}",
                std::string(FromTorchException(error, "the prediction layer").message()));
    }
  }

  // A tensor's bytes on the device. Versions share the tensors that they have in common, such as an adapter's base.
  struct Uploaded {
    uint64_t checksum = 0;
    c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl> tensor;
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
    uploaded_.insert_or_assign(
        view.name, Uploaded{view.checksum, c10::weak_intrusive_ptr<at::TensorImpl>(tensor.getIntrusivePtr())});
    return tensor;
  }

  // Returns the hidden states that the batch's rows read.
  at::Tensor DraftInput(const DraftBatch& batch) const {
    if (!batch.first) return drafted_.index_select(0, View(batch.from).to(device_));
    std::vector<at::Tensor> rows;
    for (const int64_t slot : batch.from) rows.push_back(slots_.at(static_cast<size_t>(slot)));
    return at::stack(rows);
  }

  at::Tensor Hidden(const model::Transformer& transformer, const ForwardBatch& batch, const at::Tensor& ids,
                    const at::Tensor& positions) {
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
  bool speculates_;  // false = prediction layers are not used
  PagedCache cache_;
  MtpRunner mtp_;
  StepInput step_;
  std::optional<DecodeGraphs> graphs_;  // nullopt = rollout.cuda_graphs is off, or the model cannot be recorded
  at::Tensor rows_, normalizers_;
  at::Tensor hidden_;                // of the last Forward's sampled rows; undefined = its model has no draft head
  std::vector<at::Tensor> slots_;    // KeepHidden's
  at::Tensor drafted_, draft_rows_;  // the last Draft's hidden states and result
  std::vector<uint16_t> routes_;
  std::vector<DrawnId> drawn_ids_;  // by the last Forward
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
  const int64_t head = model::DraftHead::MaxElements(config);
  const int64_t draft = std::max(2 * head, model::MtpLayerElements(config));  // a head and its shadow
  const int64_t elements = config.ParameterCount() + tied_head + draft;
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
    if (device == "cpu" || !options.shares_device) INGOT_RETURN_IF_ERROR(CheckCacheFits(config, options, device));
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

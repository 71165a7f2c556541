#include "trainer/pass/forest_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <utility>

#include "base/work.h"
#include "trainer/pass/head_pass.h"
#include "trainer/pass/part_run.h"
#include "trainer/pass/window_pairs.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

class Pass {
 public:
  Pass(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
       EntryLoss* loss, const PassOptions& options)
      : model_(model),
        forest_(forest),
        loss_(loss),
        options_(options),
        head_(model, forest, calls, loss, options.logits_chunk_elements, options.read_policy) {}

  PassResult Run() {
    if (forest_.entries.empty()) return {};
    parts_ = tree::CutForest(forest_, options_.part_tokens);
    result_.parts = static_cast<int64_t>(parts_.size());
    for (size_t i = 0; i < parts_.size(); ++i) forward_.total += (RunsTwice(i) ? 2 : 1) * int64_t{parts_[i].size()};
    backward_.total = static_cast<int64_t>(forest_.size());
    logits_.total = head_.rows();
    result_.head_rows = head_.rows();
    path_.resize(parts_.size());
    std::vector<WaitingPart> waiting;
    tree::RunParts(
        parts_, [&](size_t i) { waiting.push_back(Start(i)); },
        [&](size_t) {
          Finish(waiting.back());
          waiting.pop_back();
        });
    static_cast<HeadResult&>(result_) = std::move(head_.result());
    return std::move(result_);
  }

 private:
  // A part after its forward pass.
  struct WaitingPart {
    size_t index;
    std::unique_ptr<PartRun> run;
    at::Tensor grad;  // with respect to its output; undefined = its head has not run yet
  };

  // With recompute_prefix, parts that later parts read run twice.
  bool RunsTwice(size_t i) const {
    return loss_ != nullptr && options_.recompute_prefix && parts_[i].seen_later(static_cast<int32_t>(i));
  }

  // Calls `run` for part i and reports its progress as `what`, counted over all rows of the pass.
  template <typename Run>
  auto Show(const char* what, size_t i, base::WorkAmount& rows, Run run) {
    base::WorkPart shown(absl::StrCat(what, " of part ", i + 1, " of ", parts_.size()), rows);
    auto result = run(&shown);
    rows.done = shown.done();
    return result;
  }

  at::Tensor Forward(size_t i, PartRun& run, PartRun::History history) {
    return Show("forward", i, forward_, [&](base::WorkPart* shown) { return run.Forward(history, shown); });
  }

  WaitingPart Start(size_t i) {
    WaitingPart part{i,
                     std::make_unique<PartRun>(model_, forest_, parts_, i, path_, options_.numerics, options_.weights,
                                               loss_ == nullptr ? nullptr : options_.experts, options_.routes),
                     {}};
    if (loss_ == nullptr) {
      Head(i, Forward(i, *part.run, PartRun::History::kNone));
    } else if (RunsTwice(i)) {
      Forward(i, *part.run, PartRun::History::kNone);
      result_.repeated_rows += parts_[i].size();
      result_.repeated_pairs += parts_[i].visible_pairs;
      const auto depths = std::span(forest_.positions)
                              .subspan(static_cast<size_t>(parts_[i].begin), static_cast<size_t>(parts_[i].size()));
      result_.repeated_window_pairs += WindowPairs(depths, model_.config().sliding_window);
    } else {
      part.grad = Head(i, Forward(i, *part.run, HistoryToHold()));
    }
    return part;
  }

  void Finish(WaitingPart& part) {
    if (loss_ != nullptr) {
      if (!part.grad.defined()) part.grad = Head(part.index, Forward(part.index, *part.run, HistoryToHold()));
      Show("backward", part.index, backward_, [&](base::WorkPart* shown) {
        part.run->Backward(std::move(part.grad), shown);
        return 0;
      });
      if (options_.part_done) options_.part_done();
    }
    path_[part.index] = {};
  }

  PartRun::History HistoryToHold() const {
    return options_.checkpoint_layers ? PartRun::History::kInputs : PartRun::History::kAll;
  }

  at::Tensor Head(size_t i, const at::Tensor& x) {
    const tree::ForestPart& part = parts_[i];
    if (options_.read_hidden) options_.read_hidden(part.begin, part.end, x);
    if (options_.weights != nullptr && head_.Reads(part.begin, part.end)) options_.weights->NeedHead();
    return Show("logits", i, logits_, [&](base::WorkPart* shown) { return head_.Run(part.begin, part.end, x, shown); });
  }

  const model::Transformer& model_;
  const tree::PackedForest& forest_;
  EntryLoss* const loss_;  // null = score only
  const PassOptions& options_;
  HeadPass head_;
  std::vector<tree::ForestPart> parts_;
  std::vector<PathRows> path_;
  base::WorkAmount forward_{.unit = "rows"}, backward_{.unit = "rows"}, logits_{.unit = "rows"};
  PassResult result_;
};

}  // namespace

PassOptions PassOptionsOf(const TrainerOptions& options) {
  PassOptions pass;
  pass.logits_chunk_elements = options.logits_chunk_elements;
  pass.part_tokens = options.micro_batch_tokens;
  pass.checkpoint_layers = options.checkpoint_layers;
  pass.recompute_prefix = options.recompute_prefix;
  pass.numerics = options.numerics;
  return pass;
}

absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch) {
  return PackBatch(batch, tree::OrderChainFirst(batch.calls));
}

absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch, std::span<const int32_t> calls) {
  INGOT_ASSIGN_OR_RETURN(tree::PackedForest forest, tree::PackForest(batch.calls, calls));
  std::erase_if(forest.entries, [&](const tree::LossEntry& entry) { return !StepLoss::Bears(batch, entry); });
  return forest;
}

PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, const PassOptions& options) {
  const at::NoGradGuard no_history;
  return Pass(model, forest, calls, nullptr, options).Run();
}

int ScoreBefore(const model::Transformer& model, const model::Transformer* reference, const tree::PackedForest& forest,
                std::span<const tree::CallPath> calls, StepLoss& loss, const PassOptions& options) {
  int passes = 0;
  if (loss.needs_reference()) {
    PassOptions of_reference = options;
    of_reference.weights = nullptr;
    of_reference.routes = nullptr;  // the recorded routes are not those of the reference model
    loss.RecordReference(forest.entries, ScoreForest(*reference, forest, calls, of_reference).logprobs);
    ++passes;
  }
  if (loss.needs_scores()) {
    loss.RecordCurrent(forest.entries, ScoreForest(model, forest, calls, options).logprobs);
    ++passes;
  }
  return passes;
}

PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::CallPath> calls, EntryLoss& loss, const PassOptions& options) {
  const at::AutoGradMode history(true);
  return Pass(model, forest, calls, &loss, options).Run();
}

}  // namespace ingot::trainer

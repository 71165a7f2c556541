#include "tree/render.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "base/printable.h"
#include "base/utf8.h"
#include "tree/episode_return.h"
#include "tree/forest.h"
#include "tree/trie.h"

namespace ingot::tree {
namespace {

std::string Fixed(double value, const char* format) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), format, value);
  return buffer;
}

// Sets the sampled fields of a run at `depth` from a call that sampled it.
void DescribeSampled(const CallPath& call, int32_t depth, TreeNode& node) {
  const size_t begin = static_cast<size_t>(depth - call.context.size());
  double sum = 0;
  node.source = v1::SOURCE_SAMPLED;
  node.first_version = node.last_version = call.versions[begin];
  for (size_t i = begin; i < begin + node.tokens.size(); ++i) {
    sum += call.logprobs[i];
    node.first_version = std::min(node.first_version, call.versions[i]);
    node.last_version = std::max(node.last_version, call.versions[i]);
    node.kv_mixed = node.kv_mixed || call.kv_mixed[i] != 0;
  }
  node.mean_logprob = sum / static_cast<double>(node.tokens.size());
}

std::string Escape(std::string_view text, bool ascii) {
  return base::Printable(text, {.ascii = ascii, .quoted = true});
}

// Returns `text` without its middle, cut between characters.
std::string Shorten(const std::string& text, size_t most, bool ascii) {
  if (text.size() <= most) return "\"" + Escape(text, ascii) + "\"";
  const std::string head = base::CutText(text, most - most / 3);
  size_t tail = text.size() - most / 3;
  while (tail < text.size() && base::IsContinuation(text[tail])) ++tail;
  return absl::StrCat("\"", Escape(head, ascii), "\" ... \"", Escape(std::string_view(text).substr(tail), ascii), "\"");
}

std::string Line(const v1::EpisodeTree& tree, const TreeNode& node, const DecodeFn& decode,
                 const RenderOptions& options) {
  const bool sampled = node.source == v1::SOURCE_SAMPLED;
  std::string line = absl::StrCat(sampled ? "sampled " : "prompt ", node.tokens.size(),
                                  node.tokens.size() == 1 ? " token" : " tokens");
  if (sampled) {
    absl::StrAppend(&line, ", version ", node.first_version);
    if (node.last_version != node.first_version) absl::StrAppend(&line, "-", node.last_version);
    if (node.kv_mixed) line += " (mixed KV)";
    absl::StrAppend(&line, ", logprob ", Fixed(node.mean_logprob, "%.3f"));
  }
  for (const int32_t index : node.calls_ended) {
    const v1::Call& call = tree.calls(index);
    absl::StrAppend(&line, ", call ", call.sequence(), " ", FinishName(call.finish()));
    if (!call.branch().empty()) absl::StrAppend(&line, " in '", Escape(call.branch(), options.ascii), "'");
    if (!call.role().empty()) absl::StrAppend(&line, " as '", Escape(call.role(), options.ascii), "'");
    if (!call.fork_cause().empty()) absl::StrAppend(&line, " forked: ", Escape(call.fork_cause(), options.ascii));
    if (call.tool_call_malformed()) line += " malformed tool call";
    const auto& rewards = CallRewardsOf(tree.episode());
    if (const auto earned = rewards.find(call.call_id()); earned != rewards.end()) {
      absl::StrAppend(&line, " reward ", Fixed(earned->second, "%g"));
    }
  }
  if (options.max_text_bytes > 0 && decode != nullptr) {
    absl::StrAppend(&line, " ", Shorten(decode(node.tokens), options.max_text_bytes, options.ascii));
  }
  return line;
}

std::string Heading(const v1::EpisodeTree& tree, const std::vector<TreeNode>& nodes, int64_t recorded, bool ascii) {
  const v1::Episode& episode = tree.episode();
  int64_t merged = 0;
  for (const TreeNode& node : nodes) merged += static_cast<int64_t>(node.tokens.size());
  std::string out =
      absl::StrCat("episode ", Escape(episode.episode_id(), ascii), "  task ", Escape(episode.task().task_id(), ascii),
                   "  group ", episode.ref().group_id(), " sample ", episode.ref().sample_index(), " attempt ",
                   episode.ref().attempt(), "  ", StateName(episode.state()));
  if (episode.state() == v1::EPISODE_FINISHED || (episode.state() == v1::EPISODE_OPEN && episode.has_reward())) {
    absl::StrAppend(&out, "  reward ", Fixed(RewardOf(episode), "%g"));
  }
  absl::StrAppend(&out, "\n", tree.calls_size(), " calls, ", merged, " tokens (", recorded, " as recorded by calls)\n");
  if (episode.has_fork()) {
    absl::StrAppend(&out, "continues from episode ", Escape(episode.fork().episode_id(), ascii), ", after its call ",
                    Escape(episode.fork().call_id(), ascii), "\n");
  }
  if (!episode.detail().empty()) absl::StrAppend(&out, "detail: ", Escape(episode.detail(), ascii), "\n");
  if (episode.has_grade()) absl::StrAppend(&out, "outcome ", Fixed(episode.reward(), "%g"), "\n");
  for (const v1::TermValue& term : episode.grade().terms()) {
    absl::StrAppend(&out, "term ", Escape(term.term(), ascii), " = ", Fixed(term.value(), "%g"), " x ",
                    Fixed(term.weight(), "%g"),
                    term.calls().empty() ? "" : absl::StrCat(", ", term.calls_size(), " calls"),
                    term.detail().empty() ? "" : absl::StrCat("  ", Escape(term.detail(), ascii)), "\n");
  }
  const std::map<std::string, double> signals(episode.signals().begin(), episode.signals().end());
  for (const auto& [name, value] : signals) {
    absl::StrAppend(&out, "signal ", Escape(name, ascii), " = ", Fixed(value, "%g"), "\n");
  }
  return out;
}

}  // namespace

std::string FinishName(v1::FinishReason finish) {
  switch (finish) {
    case v1::FINISH_STOP:
      return "stop";
    case v1::FINISH_LENGTH:
      return "length";
    case v1::FINISH_ABORTED:
      return "aborted";
    case v1::FINISH_ERROR:
      return "error";
    case v1::FINISH_REPETITION:
      return "repetition";
    case v1::FINISH_PAUSED:
      return "paused";
    default:
      return "unfinished";
  }
}

std::string StateName(v1::EpisodeState state) {
  switch (state) {
    case v1::EPISODE_OPEN:
      return "open";
    case v1::EPISODE_FINISHED:
      return "finished";
    case v1::EPISODE_FAILED:
      return "failed";
    case v1::EPISODE_INFRASTRUCTURE_FAILED:
      return "infrastructure failed";
    case v1::EPISODE_FENCED:
      return "fenced";
    case v1::EPISODE_FORKED:
      return "forked";
    default:
      return "unknown";
  }
}

absl::StatusOr<std::vector<TreeNode>> DescribeTree(const v1::EpisodeTree& tree) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<CallPath> calls, CallPathsOf(tree, 0, 0));
  Trie trie;
  std::vector<int32_t> contexts, leaves;
  for (const CallPath& call : calls) {
    contexts.push_back(trie.Insert(call.context));
    leaves.push_back(trie.Insert(call.sampled, contexts.back()));
  }
  std::vector<bool> border(trie.size(), false);  // true = a prompt or call ends there
  border[0] = true;
  for (const int32_t id : contexts) border[id] = true;
  for (const int32_t id : leaves) border[id] = true;
  std::vector<int32_t> place(trie.size(), -1);
  std::vector<TreeNode> nodes;
  for (const int32_t id : trie.PreOrder()) {
    const Trie::Node& run = trie.node(id);
    const Trie::Node& parent = trie.node(run.parent);
    if (border[run.parent] || parent.first_child != parent.last_child) {
      TreeNode& node = nodes.emplace_back();
      node.parent = place[run.parent];
      node.depth = run.depth;
      if (node.parent >= 0) ++nodes[node.parent].children;
    }
    place[id] = static_cast<int32_t>(nodes.size()) - 1;
    nodes.back().tokens.insert(nodes.back().tokens.end(), run.tokens.begin(), run.tokens.end());
  }
  for (size_t c = 0; c < calls.size(); ++c) {
    if (leaves[c] > 0) nodes[place[leaves[c]]].calls_ended.push_back(static_cast<int32_t>(c));
    for (int32_t id = leaves[c]; id != contexts[c]; id = trie.node(id).parent) {
      TreeNode& node = nodes[place[id]];
      if (!node.sampled_by.empty() && node.sampled_by.back() == static_cast<int32_t>(c)) continue;
      if (node.sampled_by.empty()) DescribeSampled(calls[c], node.depth, node);
      node.sampled_by.push_back(static_cast<int32_t>(c));
    }
  }
  return nodes;
}

absl::StatusOr<std::string> RenderTree(const v1::EpisodeTree& tree, const DecodeFn& decode,
                                       const RenderOptions& options) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<TreeNode> nodes, DescribeTree(tree));
  INGOT_ASSIGN_OR_RETURN(const std::vector<CallPath> calls, CallPathsOf(tree, 0, 0));
  int64_t recorded = 0;
  for (const CallPath& call : calls) recorded += call.size();
  std::string out = Heading(tree, nodes, recorded, options.ascii);

  int32_t roots = 0;
  for (const TreeNode& node : nodes) roots += node.parent < 0 ? 1 : 0;
  // Per node: the prefix of its children's lines, and the number of children to print. A node's prefix is dropped once
  // it has no descendants left to print, so memory use depends on the open path.
  struct Open {
    int32_t node;
    std::string prefix;
    int32_t left;  // children left to print
    int32_t indent;
  };
  std::vector<Open> open = {{-1, "", roots, 0}};
  for (size_t i = 0; i < nodes.size(); ++i) {
    while (open.back().node != nodes[i].parent) open.pop_back();
    Open& parent = open.back();
    const bool forked = parent.node < 0 ? roots > 1 : nodes[parent.node].children > 1;
    --parent.left;
    std::string prefix = parent.prefix;
    int32_t indent = parent.indent;
    std::string line = prefix;
    if (forked && indent < options.max_indent) {
      const bool last = parent.left == 0;
      line += options.ascii ? (last ? "`- " : "|- ") : (last ? "└─ " : "├─ ");
      prefix += last ? "   " : options.ascii ? "|  " : "│  ";
      ++indent;
    }
    absl::StrAppend(&out, line, Line(tree, nodes[i], decode, options), "\n");
    // All of the parent's children have been started, so its entry is dropped. `prefix` is a copy.
    if (parent.left == 0 && parent.node >= 0) open.pop_back();
    open.push_back({static_cast<int32_t>(i), std::move(prefix), nodes[i].children, indent});
  }
  return out;
}

}  // namespace ingot::tree

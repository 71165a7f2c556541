#include "text/chat/template_format.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/utf8.h"
#include "text/chat/taken_conversation.h"
#include "text/chat/template_layout.h"
#include "text/chat/template_turn.h"
#include "text/chat/text_key.h"

namespace ingot::text {
namespace {

using jinja::RenderedText;

// A layout with its ids.
struct EncodedLayout {
  Layout layout;
  std::vector<Region> sampled;  // per message; empty except for an assistant's
  std::vector<size_t> cuts;
  MarkedEncoder::Encoding encoding;

  // REQUIRES: `offset` is one of the cuts.
  size_t IdsBefore(size_t offset) const {
    return encoding.at_cuts[std::lower_bound(cuts.begin(), cuts.end(), offset) - cuts.begin()];
  }
  std::pair<size_t, size_t> SampledIds(size_t message) const {
    const Region& region = sampled[message];
    if (region == Region()) return {};
    return {IdsBefore(region.begin), IdsBefore(region.end)};
  }
  // Returns the range from the first to the last sampled id of original message `i`.
  std::pair<size_t, size_t> SampledIds(const TakenConversation& taken, size_t i) const {
    std::pair<size_t, size_t> all;
    for (size_t message = taken.First(i); message <= taken.Last(i); ++message) {
      if (sampled[message] == Region()) continue;
      const auto [first, last] = SampledIds(message);
      all = {all.second == 0 ? first : all.first, last};
    }
    return all;
  }
};

// Strips trailing whitespace, because templates may remove it.
std::string_view WithoutSpaceAtEnd(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// The end of a turn.
struct TurnEnd {
  Region region;    // of the closing token, or the point after the turn's text if there is none
  int32_t id = -1;  // -1 = no token closes the turn
};

class TemplateFormat final : public ChatFormat {
 public:
  TemplateFormat(std::shared_ptr<const ChatTemplate> chat_template, std::shared_ptr<const MarkedEncoder> encoder,
                 const OutputFormat* output)
      : template_(std::move(chat_template)),
        encoder_(std::move(encoder)),
        output_(output->ForTokenizer(encoder_->tokenizer())),
        thoughts_(encoder_->shared_tokenizer(), output_->row()),
        dialect_(ProbeDialect(*template_)),
        taker_(template_, output_, dialect_) {
    FindEndOfTurn(encoder_->tokenizer());
    std::string definition =
        absl::StrCat("template 1 ", output_->name(), " ", dialect_.arguments_as_text,
                     static_cast<int>(dialect_.no_content), dialect_.short_ids ? " 9" : "", "\n", template_->source());
    for (const auto& [name, token] : template_->special_tokens()) {
      absl::StrAppend(&definition, "\n", name, "=", token.str()->bytes);
    }
    fingerprint_ = base::Hex(base::ContentKey(definition));
  }

  absl::StatusOr<RenderedPrompt> Render(const Conversation& conversation, bool add_generation_prompt,
                                        size_t most_ids) const override {
    const size_t count = conversation.messages.size();
    if (count == 0) return absl::InvalidArgumentError("a conversation needs at least one message");
    INGOT_RETURN_IF_ERROR(CheckTextAlone(conversation.messages));
    RenderedPrompt prompt;
    INGOT_ASSIGN_OR_RETURN(TakenConversation taken, TakePrompt(conversation, add_generation_prompt, prompt.prefill));
    INGOT_RETURN_IF_ERROR(CheckSize(taken.layout.rendered.text, most_ids));
    EncodedLayout encoded;
    EncodeLayout(taken.messages(), std::move(taken.layout), 0, encoded);
    for (size_t i = 0; i < count; ++i) {
      prompt.message_ends.push_back(encoded.IdsBefore(encoded.layout.ends[taken.Last(i)]));
      prompt.sampled_ranges.push_back(encoded.SampledIds(taken, i));
    }
    prompt.ids = std::move(encoded.encoding.ids);
    prompt.text_key = TextKey(encoded.layout.rendered.text);
    prompt.concessions = taken.concessions();
    return prompt;
  }

  absl::StatusOr<std::vector<RenderedTurn>> RenderTurns(const Conversation& conversation,
                                                        size_t first_message) const override {
    const std::vector<Message>& messages = conversation.messages;
    INGOT_RETURN_IF_ERROR(CheckTextAlone(messages));
    TakenConversation as_it_is{.original = &conversation, .input = MakeTemplateInput(conversation, dialect_)};
    std::vector<RenderedTurn> turns;
    EncodedLayout encoded;
    size_t before = 0;  // ids of the previous turn, including its context
    for (size_t i = first_message; i < messages.size(); ++i) {
      if (messages[i].role != "assistant") continue;
      std::optional<Conversation> up_to_turn;
      std::optional<TakenConversation> changed;
      size_t begin = 0;  // in the text: the turn's own text begins here or later
      auto layout = taker_.LayOut(as_it_is.input, i + 1, false);
      if (!layout.ok() || LeavesOutSystem(std::span(messages).first(i + 1), layout->rendered)) {
        up_to_turn = First(conversation, i + 1);
        auto taken = taker_.TakeConversation(*up_to_turn, false);
        if (!taken.ok()) return base::Annotate(taken.status(), absl::StrCat("up to message ", i));
        if (taken->JoinsBefore(i)) {
          INGOT_ASSIGN_OR_RETURN(begin, CommonText(First(conversation, i), taken->layout.rendered.text));
        }
        layout = std::move(taken->layout);
        changed = *std::move(taken);
      }
      const TakenConversation& taken = changed ? *changed : as_it_is;
      const size_t kept = EncodeLayout(taken.messages(), *std::move(layout), begin, encoded);
      for (size_t message = taken.First(i); message <= taken.Last(i); ++message) {
        if (taken.messages()[message].role != "assistant") continue;
        const auto [first, last] = encoded.SampledIds(message);
        const bool is_first = turns.empty() || turns.back().message != i;
        RenderedTurn& turn = turns.emplace_back();
        turn.message = i;
        turn.concessions = taken.concessions();
        turn.shared = std::min({is_first ? kept : before, before, first});
        const auto ids = encoded.encoding.ids.begin();
        turn.context.assign(ids + static_cast<std::ptrdiff_t>(turn.shared), ids + static_cast<std::ptrdiff_t>(first));
        turn.sampled.assign(ids + static_cast<std::ptrdiff_t>(first), ids + static_cast<std::ptrdiff_t>(last));
        before = last;
      }
    }
    return turns;
  }

  absl::StatusOr<RenderedTail> RenderTail(const Conversation& conversation, size_t first_new,
                                          std::span<const int32_t> turn, const TailOptions& options) const override {
    const std::vector<Message>& messages = conversation.messages;
    INGOT_RETURN_IF_ERROR(CheckTail(messages, first_new));
    RenderedTail made;
    INGOT_ASSIGN_OR_RETURN(const TakenConversation taken, TakePrompt(conversation, true, made.prefill));
    const Layout& whole = taken.layout;
    const std::string_view text = whole.rendered.text;
    const bool as_template = options.earlier == EarlierTurns::kAsTemplate;
    // If the template accepts a turn only together with another turn, the turn was not sampled like this.
    if (first_new < messages.size() && taken.JoinsBefore(first_new)) return OtherText(first_new - 1);
    if (as_template && taken.JoinsBefore(first_new - 1)) return OtherText(first_new - 1);
    // The prompt that the turn was sampled from, if the template still writes it.
    KeyedText keyed = KeyText(text, options.sampled_from);
    std::optional<std::string_view>& prompt = keyed.prefix;
    std::string written;
    bool other = false;
    if (!prompt.has_value() && first_new > 1 && (as_template || !options.sampled_from.empty())) {
      // An error means that the template cannot end the conversation here, so nothing was sampled from it.
      if (auto rendered = RenderInput(*template_, taken.input, taken.First(first_new - 1), true); rendered.ok()) {
        prompt = written = std::move(rendered->text);
        other = !options.sampled_from.empty() && TextKey(written) != options.sampled_from;
      }
    }
    size_t tail = 0;
    if (conversation.ends_begun && first_new == messages.size()) {
      if (as_template) INGOT_RETURN_IF_ERROR(CheckBegun(taken, first_new - 1, turn, prompt));
      INGOT_ASSIGN_OR_RETURN(tail, AfterBegin(taken, first_new - 1, text.size(), options.following));
    } else if (as_template) {
      INGOT_ASSIGN_OR_RETURN(tail, FindTail(taken, first_new - 1, turn, prompt, options.following));
    } else {
      const Region region = RegionOf(taken, first_new - 1);
      const TurnEnd closing = FindTurnEnd(whole.rendered, region, taken.Last(first_new - 1), turn);
      INGOT_ASSIGN_OR_RETURN(tail, AfterBegin(taken, first_new - 1, TailBegin(closing, turn), options.following));
    }
    if (other) return OtherText(first_new - 1);
    INGOT_RETURN_IF_ERROR(CheckSize(std::string_view(whole.rendered.text).substr(tail), options.most_ids));
    made.ids = options.following.empty() ? EncodeTail(whole, tail) : EncodeMidText(whole, tail, turn);
    made.text_key = std::move(keyed.key);
    made.concessions = taken.concessions();
    return made;
  }

  const std::shared_ptr<const OutputFormat>& output() const override { return output_; }
  bool ReadsVariable(std::string_view name) const override { return template_->Mentions(name); }
  ReasoningSyntax SyntaxOfReasoning() const override {
    const OutputRow& row = output_->row();
    if (row.think_begin.empty()) return {};
    return {row.think_begin, row.think_end, "\n\n"};
  }

  const std::vector<int32_t>& end_of_turn_ids() const override { return end_of_turn_ids_; }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  // Fits the conversation to the template, up to its end, the generation prompt, or the end of a begun answer.
  absl::StatusOr<TakenConversation> TakePrompt(const Conversation& conversation, bool add_generation_prompt,
                                               std::string& prefill) const {
    const bool begun = add_generation_prompt && conversation.ends_begun;
    INGOT_ASSIGN_OR_RETURN(TakenConversation taken,
                           taker_.TakeConversation(conversation, add_generation_prompt && !begun));
    if (begun) {
      INGOT_ASSIGN_OR_RETURN(const Region content, CutAfterBegun(taken, taken.layout));
      const size_t turn = RegionOf(taken.layout, taken.messages().size() - 1).begin;
      prefill = output_->PrefillOf(std::string_view(taken.layout.rendered.text).substr(turn, content.begin - turn));
      prefill += kBegunContent;
    } else if (add_generation_prompt) {
      prefill = output_->PrefillOf(taken.layout.generation_prompt);
    }
    return taken;
  }

  // Cuts the layout after the begun answer's content. Returns the content's region.
  static absl::StatusOr<Region> CutAfterBegun(const TakenConversation& taken, Layout& layout) {
    const size_t last = taken.messages().size() - 1;
    const auto content = CutAfterContent(last, taken.messages()[last].content, RegionOf(layout, last), layout.rendered);
    if (!content.has_value()) {
      return absl::InvalidArgumentError("the chat template changes the last message, so no answer can continue it");
    }
    for (size_t& end : layout.ends) end = std::min(end, content->end);
    layout.prompt_begin = content->end;
    return *content;
  }

  // Returns OK if the template writes the begun answer, original message `i`, as it was sampled: as `ids` after
  // `prompt` (nullopt = unknown).
  absl::Status CheckBegun(const TakenConversation& taken, size_t i, std::span<const int32_t> ids,
                          std::optional<std::string_view> prompt) const {
    if (!prompt.has_value()) return absl::OkStatus();
    INGOT_RETURN_IF_ERROR(CheckBegins(taken, *prompt));
    const Region region = RegionOf(taken, i);
    if (prompt->size() < region.begin) return absl::OkStatus();
    const ThoughtMatch thoughts = thoughts_.Compare({.message = taken.original->messages[i],
                                                     .prompt = prompt->substr(region.begin),
                                                     .ids = ids,
                                                     .sampled = TextOf(ids),
                                                     .rendered = taken.layout.rendered,
                                                     .written = region});
    if (thoughts == ThoughtMatch::kLost) return ReasoningLost(i);
    return thoughts == ThoughtMatch::kAdded ? OtherText(i) : absl::OkStatus();
  }

  absl::Status CheckSize(std::string_view text, size_t most_ids) const {
    if (text.size() <= most_ids) return absl::OkStatus();  // a token has at least one byte
    const size_t least = encoder_->tokenizer().LeastIds(text);
    return least <= most_ids ? absl::OkStatus() : TooManyIds(least);
  }

  static Conversation First(const Conversation& conversation, size_t count) {
    return {
        .messages = {conversation.messages.begin(), conversation.messages.begin() + static_cast<std::ptrdiff_t>(count)},
        .tools = conversation.tools,
        .template_variables = conversation.template_variables};
  }

  // Returns the number of bytes that the rendered conversation shares with the beginning of `text`.
  absl::StatusOr<size_t> CommonText(const Conversation& conversation, std::string_view text) const {
    INGOT_ASSIGN_OR_RETURN(const TakenConversation taken, taker_.TakeConversation(conversation, false));
    return base::StartOf(text, CommonPrefix(taken.layout.rendered.text, text));
  }

  // Finds the sampled parts of `layout`, the last of which begins at or after `last_begin`, and encodes the layout.
  // Reuses the ids in `encoded` for the common prefix, returns their number, and replaces `encoded`.
  size_t EncodeLayout(const std::vector<Message>& messages, Layout layout, size_t last_begin,
                      EncodedLayout& encoded) const {
    const bool alike = layout.generation_prompt == encoded.layout.generation_prompt;
    const size_t same = alike ? CommonBeginning(encoded.layout.rendered, layout.rendered) : 0;
    EncodedLayout now;
    now.cuts = layout.ends;
    for (size_t i = 0; i < layout.ends.size(); ++i) {
      now.sampled.emplace_back();
      if (messages[i].role != "assistant") continue;
      const Region region = RegionOf(layout, i);
      const bool known = i < encoded.layout.ends.size() && region.end <= same && region == RegionOf(encoded.layout, i);
      now.sampled[i] =
          known ? encoded.sampled[i]
                : SampledRegion(*encoder_, layout.rendered, region, i, layout.generation_prompt, end_of_turn_ids_);
      if (i + 1 == layout.ends.size()) {
        now.sampled[i].begin = std::max(now.sampled[i].begin, std::min(last_begin, now.sampled[i].end));
      }
      now.cuts.push_back(now.sampled[i].begin);
      now.cuts.push_back(now.sampled[i].end);
    }
    std::sort(now.cuts.begin(), now.cuts.end());
    now.cuts.erase(std::unique(now.cuts.begin(), now.cuts.end()), now.cuts.end());
    const auto parted = std::mismatch(now.cuts.begin(), now.cuts.end(), encoded.cuts.begin(), encoded.cuts.end());
    const auto kept = std::upper_bound(now.cuts.begin(), parted.first, same) - now.cuts.begin();
    MarkedEncoder::Encoding& kept_encoding = encoded.encoding;
    kept_encoding.at_cuts.resize(static_cast<size_t>(kept));
    kept_encoding.ids.resize(kept == 0 ? 0 : kept_encoding.at_cuts.back());
    const size_t kept_ids = kept_encoding.ids.size();
    now.encoding = encoder_->Encode(layout.rendered.text, layout.rendered.marks, now.cuts, std::move(kept_encoding));
    now.layout = std::move(layout);
    encoded = std::move(now);
    return kept_ids;
  }

  // Returns the beginning of message `turn`, the last message in `before`.
  static size_t TurnBegin(const RenderedText& before, size_t turn) {
    const auto regions = MessageRegions(before, turn + 1);
    if (regions[turn]) return regions[turn]->begin;
    for (const jinja::Mark& mark : before.marks) {
      if (mark.source == static_cast<int32_t>(turn)) return mark.begin;
    }
    return 0;
  }

  // Returns the ids decoded to text, as if text came before them.
  std::string TextOf(std::span<const int32_t> ids) const {
    std::string text;
    DecodeState state = DecodeState::MidText();
    for (const int32_t id : ids) encoder_->tokenizer().DecodeNext(id, /*skip_special=*/false, state, text);
    return text;
  }

  bool EndsTurn(std::span<const int32_t> ids) const {
    return !ids.empty() &&
           std::find(end_of_turn_ids_.begin(), end_of_turn_ids_.end(), ids.back()) != end_of_turn_ids_.end();
  }
  std::span<const int32_t> WithoutEnd(std::span<const int32_t> ids) const {
    return ids.first(ids.size() - (EndsTurn(ids) ? 1 : 0));
  }

  // Returns the end of message `turn`, which was sampled as `ids`: a token within `region`, or an end-of-turn token
  // right after it. If there is neither, returns the point after the message's own text, or the region's end if the
  // sampled text extends to it.
  TurnEnd FindTurnEnd(const RenderedText& rendered, const Region& region, size_t turn,
                      std::span<const int32_t> ids) const {
    const auto token = ClosingToken(*encoder_, rendered, region, end_of_turn_ids_);
    if (token && EndsTurn(std::span(&token->id, 1))) return {{token->begin, token->end}, token->id};
    const auto next = TokenAt(*encoder_, rendered, region.end);
    if (next && EndsTurn(std::span(&next->id, 1))) return {{next->begin, next->end}, next->id};
    if (token) return {{token->begin, token->end}, token->id};
    size_t end = region.begin;
    for (const jinja::Mark& mark : rendered.marks) {
      if (mark.source == static_cast<int32_t>(turn) && mark.end <= region.end) end = std::max(end, mark.end);
    }
    const std::string_view rest = std::string_view(rendered.text).substr(end, region.end - end);
    if (TextOf(WithoutEnd(ids)).ends_with(rest)) end = region.end;
    return {{end, end}, -1};
  }

  static size_t TailBegin(const TurnEnd& closing, std::span<const int32_t> ids) {
    const bool closed = closing.id >= 0 && !ids.empty() && ids.back() == closing.id;
    return closed ? closing.region.end : closing.region.begin;
  }

  // Returns where the client's text after original message `i` begins, at its last place before `end`. Returns ABORTED
  // if the template does not write it.
  static absl::StatusOr<size_t> AfterBegin(const TakenConversation& taken, size_t i, size_t end,
                                           std::string_view following) {
    const Region region = RegionOf(taken, i);
    const std::string_view written =
        std::string_view(taken.layout.rendered.text).substr(0, end).substr(std::min(region.begin, end));
    for (const std::string_view text : {following, WithoutSpaceAtEnd(following)}) {
      const size_t found = written.rfind(text);
      if (found != std::string_view::npos) return end - written.size() + found;
    }
    return OtherText(i);
  }

  // Returns where the tail begins in the text, if the template writes original message `i` as it was sampled: as `ids`
  // after `prompt` (nullopt = unknown), with `following` at its end.
  absl::StatusOr<size_t> FindTail(const TakenConversation& taken, size_t i, std::span<const int32_t> ids,
                                  std::optional<std::string_view> prompt, std::string_view following) const {
    const Layout& whole = taken.layout;
    const Region region = RegionOf(taken, i);
    const size_t turn = taken.Last(i);
    const std::string_view text = whole.rendered.text;
    if (prompt.has_value()) INGOT_RETURN_IF_ERROR(CheckBegins(taken, *prompt));
    const bool known = prompt.has_value() && region.begin <= prompt->size() && prompt->size() <= region.end;
    if (known) {
      const std::string said = TextOf(WithoutEnd(ids)), all = TextOf(ids);
      const bool same = text.substr(prompt->size()).starts_with(all);
      const size_t end = prompt->size() + said.size();
      const std::string_view rest = text.substr(std::min(end, region.end), region.end - std::min(end, region.end));
      if (same && end <= region.end && rest.starts_with(WithoutSpaceAtEnd(following)))
        return prompt->size() + all.size();
      const TurnEnd closing = FindTurnEnd(whole.rendered, {prompt->size(), region.end}, turn, ids);
      const ThoughtMatch thoughts = thoughts_.Compare({.message = taken.original->messages[i],
                                                       .prompt = prompt->substr(region.begin),
                                                       .ids = ids,
                                                       .sampled = said,
                                                       .rendered = whole.rendered,
                                                       .written = {region.begin, closing.region.begin}});
      if (thoughts == ThoughtMatch::kLost) return ReasoningLost(i);
      if (thoughts == ThoughtMatch::kAdded) return OtherText(i);
    }
    // The template renders the turn differently. That is accepted if it also did so when the turn was last.
    INGOT_ASSIGN_OR_RETURN(const RenderedText before, RenderInput(*template_, taken.input, turn + 1, false));
    const TurnEnd closing = FindTurnEnd(before, {TurnBegin(before, turn), before.text.size()}, turn, ids);
    const std::string_view kept = std::string_view(before.text).substr(0, closing.region.end);
    if (text.starts_with(kept)) return AfterBegin(taken, i, TailBegin(closing, ids), following);
    if (!known) return CheckBegins(taken, kept);
    // Both have the same reasoning. Empty reasoning may have appeared only while the message was last.
    const std::string without = thoughts_.WithoutEmptyThought(kept, region.begin);
    if (!text.starts_with(without)) return OtherText(i);
    return AfterBegin(taken, i, TailBegin(closing, ids) - (kept.size() - without.size()), following);
  }

  // Returns OK if the template still writes `text`, which it wrote before more messages followed.
  absl::Status CheckBegins(const TakenConversation& taken, std::string_view text) const {
    const Layout& whole = taken.layout;
    const std::string_view now = whole.rendered.text;
    if (now.starts_with(text)) return absl::OkStatus();
    const size_t at = CommonPrefix(text, now);
    const size_t found = std::upper_bound(whole.ends.begin(), whole.ends.end(), at) - whole.ends.begin();
    const size_t message = std::min(found, taken.messages().size() - 1);
    const bool lost = thoughts_.PartsAtThought(text, at) ||
                      !thoughts_.Reasons(whole.rendered, RegionOf(whole, message), taken.messages()[message]);
    return lost ? ReasoningLost(message) : OtherText(message);
  }

  static absl::Status ReasoningLost(size_t message) {
    return absl::FailedPreconditionError(
        absl::StrCat("the template omits the reasoning of message ", message, " because the conversation continues"));
  }

  static absl::Status OtherText(size_t message) {
    return absl::AbortedError(
        absl::StrCat("the template writes message ", message, " differently from how it was sampled"));
  }

  std::vector<int32_t> EncodeTail(const Layout& whole, size_t from) const {
    const RenderedText& rendered = whole.rendered;
    std::vector<jinja::Mark> marks;
    for (const jinja::Mark& mark : rendered.marks) {
      if (mark.end > from) marks.push_back({std::max(mark.begin, from) - from, mark.end - from, mark.source});
    }
    std::vector<size_t> cuts;
    for (const size_t end : whole.ends) {
      if (end > from) cuts.push_back(end - from);
    }
    return encoder_->Encode(std::string_view(rendered.text).substr(from), marks, cuts).ids;
  }

  // Same as EncodeTail, but for a tail that continues within the text of `turn`.
  std::vector<int32_t> EncodeMidText(const Layout& whole, size_t from, std::span<const int32_t> turn) const {
    if (turn.empty()) return EncodeTail(whole, from);
    std::vector<size_t> cuts = {from};
    for (const size_t end : whole.ends) {
      if (end > from) cuts.push_back(end);
    }
    std::vector<int32_t> ids =
        encoder_->Encode(whole.rendered.text, whole.rendered.marks, cuts, {.ids = {turn.back()}, .at_cuts = {1}}).ids;
    ids.erase(ids.begin());
    return ids;
  }

  void FindEndOfTurn(const Tokenizer& tokenizer) {
    const auto add = [&](int32_t id) {
      const bool known = std::find(end_of_turn_ids_.begin(), end_of_turn_ids_.end(), id) != end_of_turn_ids_.end();
      if (!known && id < tokenizer.vocab_size()) end_of_turn_ids_.push_back(id);
    };
    if (const auto id = tokenizer.SpecialId(template_->eos_token())) add(*id);
    for (const int32_t id : template_->eos_ids()) add(id);
    // Adds the token that the template writes after an answer, if it is a different token. A token that the template
    // also writes within the answer (between the channels of gpt-oss) does not end a turn.
    Conversation probe = ProbeConversation();
    probe.tools.clear();
    Message& turn = probe.messages[1];
    turn.tool_calls.clear();
    turn.content = "probed";
    turn.reasoning = "probing";
    const auto layout = taker_.LayOut(MakeTemplateInput(probe, dialect_), 2, false);
    if (!layout.ok()) return;
    const Region answer{layout->ends[0], layout->ends[1]};
    const auto closing = ClosingToken(*encoder_, layout->rendered, answer, end_of_turn_ids_);
    if (!closing) return;
    size_t times = 0;
    const std::string token = tokenizer.TokenBytes(closing->id);
    for (size_t at = layout->rendered.text.find(token, answer.begin); at != std::string::npos;
         at = layout->rendered.text.find(token, at + 1)) {
      ++times;
    }
    if (times == 1) add(closing->id);
  }

  const std::shared_ptr<const ChatTemplate> template_;
  const std::shared_ptr<const MarkedEncoder> encoder_;
  const std::shared_ptr<const OutputFormat> output_;
  const ThoughtComparer thoughts_;
  const TemplateDialect dialect_;
  const ConversationTaker taker_;
  std::vector<int32_t> end_of_turn_ids_;
  std::string fingerprint_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeTemplateFormat(std::shared_ptr<const ChatTemplate> chat_template,
                                                                     std::shared_ptr<const MarkedEncoder> encoder,
                                                                     const OutputFormat* output) {
  auto format = std::make_shared<const TemplateFormat>(std::move(chat_template), std::move(encoder), output);
  if (format->end_of_turn_ids().empty()) {
    return absl::InvalidArgumentError(
        "no token ends a turn: tokenizer_config.json has no eos_token that the tokenizer knows, generation_config.json "
        "and config.json have no eos_token_id, and the template writes no special token after an answer. Set "
        "eos_token_id in generation_config.json");
  }
  return std::shared_ptr<const ChatFormat>(std::move(format));
}

absl::StatusOr<const OutputFormat*> DetectOutputFormat(const ChatTemplate& chat_template,
                                                       const MarkedEncoder& encoder) {
  const Conversation probe = ProbeConversation();
  const TemplateInput input = MakeTemplateInput(probe, ProbeDialect(chat_template));
  const auto before = RenderInput(chat_template, input, 1, false), prompt = RenderInput(chat_template, input, 1, true),
             after = RenderInput(chat_template, input, 2, false);
  const ToolCall& wanted = probe.messages[1].tool_calls[0];
  if (!after.ok() || after->text.find(wanted.name) == std::string::npos) return FindOutputFormat("plain");
  if (before.ok() && prompt.ok()) {
    const size_t begin = std::min(before->text.size(), CommonPrefix(before->text, after->text));
    const std::string_view generation_prompt =
        std::string_view(prompt->text).substr(CommonPrefix(before->text, prompt->text));
    const std::optional<int32_t> eos = encoder.tokenizer().SpecialId(chat_template.eos_token());
    std::vector<int32_t> eos_ids = chat_template.eos_ids();
    if (eos) eos_ids.push_back(*eos);
    const Region whole{begin, after->text.size()};
    Region turn = SampledRegion(encoder, *after, whole, 1, generation_prompt, eos_ids);
    if (const auto closing = ClosingToken(encoder, *after, turn, eos_ids)) turn.end = closing->begin;
    for (const std::string& name : OutputFormatNames()) {
      INGOT_ASSIGN_OR_RETURN(const OutputFormat* format, FindOutputFormat(name));
      const ParsedOutput parsed = format->Parse(std::string_view(after->text).substr(turn.begin, turn.end - turn.begin),
                                                {.tools = probe.tools});
      if (parsed.malformed || parsed.tool_calls.size() != 1 || parsed.tool_calls[0].name != wanted.name) continue;
      const auto arguments = base::ParseJson(parsed.tool_calls[0].arguments_json);
      if (arguments.ok() && *arguments == *base::ParseJson(wanted.arguments_json)) return format;
    }
  }
  return absl::NotFoundError(
      "no known output format reads the tool calls that the chat template writes: set the chat format to "
      "template:NAME, where NAME is an output format");
}

absl::StatusOr<std::shared_ptr<const ChatFormat>> LoadChatFormat(const std::string& model_dir,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 const std::string& output_format,
                                                                 const std::string& template_file) {
  const std::string& blamed = template_file.empty() ? model_dir : template_file;
  INGOT_ASSIGN_OR_RETURN(auto chat_template, ChatTemplate::Load(model_dir, template_file));
  const auto encoder = std::make_shared<const MarkedEncoder>(std::move(tokenizer), chat_template->source());
  absl::StatusOr<const OutputFormat*> output =
      output_format.empty() ? DetectOutputFormat(*chat_template, *encoder) : FindOutputFormat(output_format);
  if (!output.ok()) return base::Annotate(output.status(), blamed);
  auto format = MakeTemplateFormat(std::move(chat_template), encoder, *output);
  if (!format.ok()) return base::Annotate(format.status(), blamed);
  return format;
}

}  // namespace ingot::text

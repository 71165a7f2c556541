#include "text/chat/taken_conversation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "text/output/output_pattern.h"

namespace ingot::text {
namespace {

bool IsTaken(const absl::StatusOr<TakenConversation>& taken) {
  return taken.ok() && !LeavesOutSystem(taken->messages(), taken->layout.rendered);
}

}  // namespace

Region RegionOf(const Layout& layout, size_t message) {
  return {message == 0 ? 0 : layout.ends[message - 1], layout.ends[message]};
}

Region RegionOf(const TakenConversation& taken, size_t i) {
  return {RegionOf(taken.layout, taken.First(i)).begin, RegionOf(taken.layout, taken.Last(i)).end};
}

bool LeavesOutSystem(std::span<const Message> messages, const jinja::RenderedText& rendered) {
  std::vector<bool> missing(messages.size());
  bool any = false;
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].role != "system") continue;
    missing[i] = (i > 0 || any) && messages[i].content.find_first_not_of(kWhiteSpace) != std::string::npos;
    any = true;
  }
  if (!any) return false;
  for (const jinja::Mark& mark : rendered.marks) {
    if (mark.source >= 0 && static_cast<size_t>(mark.source) < missing.size()) missing[mark.source] = false;
  }
  return std::find(missing.begin(), missing.end(), true) != missing.end();
}

absl::StatusOr<Layout> ConversationTaker::LayOut(const TemplateInput& input, size_t count,
                                                 bool add_generation_prompt) const {
  INGOT_ASSIGN_OR_RETURN(jinja::PromptRendering made,
                         RenderInputAtPrompt(*template_, input, count, add_generation_prompt));
  Layout layout;
  layout.prompt_begin = made.prompt_begin;
  layout.generation_prompt = std::move(made.prompt);
  layout.rendered = std::move(made.rendered);
  const size_t end = add_generation_prompt ? layout.prompt_begin : layout.rendered.text.size();
  if (auto ends = MessageEnds(layout.rendered, count, end)) {
    layout.ends = *std::move(ends);
  } else {
    INGOT_ASSIGN_OR_RETURN(layout.ends, EndsByPrefixes(input, count, layout.rendered, end));
  }
  return layout;
}

absl::StatusOr<std::vector<size_t>> ConversationTaker::EndsByPrefixes(const TemplateInput& input, size_t count,
                                                                      const jinja::RenderedText& whole,
                                                                      size_t end) const {
  std::vector<size_t> ends(count, end);
  for (size_t i = count - 1; i-- > 0;) {
    const auto before = RenderInput(*template_, input, i + 1, false);
    // A prefix that does not render ends with the next message.
    if (before.ok()) ends[i] = CommonPrefix(before->text, whole.text);
    ends[i] = base::StartOf(whole.text, std::min(ends[i], ends[i + 1]));
  }
  return ends;
}

absl::StatusOr<TakenConversation> ConversationTaker::TakeWith(const Conversation& conversation,
                                                              std::optional<FittedConversation> fitted,
                                                              bool add_generation_prompt) const {
  TakenConversation taken{.original = &conversation, .fitted = std::move(fitted)};
  const Conversation& rendered = taken.fitted ? taken.fitted->conversation : conversation;
  taken.input = MakeTemplateInput(rendered, dialect_);
  INGOT_ASSIGN_OR_RETURN(taken.layout, LayOut(taken.input, rendered.messages.size(), add_generation_prompt));
  return taken;
}

absl::StatusOr<TakenConversation> ConversationTaker::TakeFitted(const Conversation& conversation, Concessions wanted,
                                                                Concession needed, bool add_generation_prompt) const {
  FittedConversation fitted = FitConversation(conversation, wanted, *output_);
  if (!fitted.changed.Has(needed)) return absl::NotFoundError("nothing to change");
  return TakeWith(conversation, std::move(fitted), add_generation_prompt);
}

absl::StatusOr<TakenConversation> ConversationTaker::TakeConversation(const Conversation& conversation,
                                                                      bool add_generation_prompt) const {
  absl::StatusOr<TakenConversation> as_it_is = TakeWith(conversation, std::nullopt, add_generation_prompt);
  if (IsTaken(as_it_is) || (!as_it_is.ok() && !absl::IsInvalidArgument(as_it_is.status()))) return as_it_is;
  // Adds one concession after another until the template accepts the conversation.
  Concessions wanted;
  Concession last = {};
  absl::StatusOr<TakenConversation> taken = absl::NotFoundError("nothing to change");
  for (size_t i = 0; i < kConcessions && !IsTaken(taken); ++i) {
    last = static_cast<Concession>(i);
    wanted = wanted.With(last);
    auto more = TakeFitted(conversation, wanted, last, add_generation_prompt);
    if (absl::IsNotFound(more.status())) continue;
    if (!more.ok() && !absl::IsInvalidArgument(more.status())) return as_it_is;
    taken = std::move(more);
  }
  if (!IsTaken(taken)) return as_it_is;
  // Then drops the concessions that have no effect.
  for (size_t i = 0; i < kConcessions; ++i) {
    const Concession idle = static_cast<Concession>(i);
    if (idle == last || !taken->concessions().Has(idle)) continue;
    auto fewer = TakeFitted(conversation, wanted.Without(idle), last, add_generation_prompt);
    if (!IsTaken(fewer)) continue;
    wanted = wanted.Without(idle);
    taken = std::move(fewer);
  }
  Report(taken->concessions(), as_it_is.status());
  return taken;
}

void ConversationTaker::Report(Concessions concessions, const absl::Status& rejection) const {
  for (size_t i = 0; i < kConcessions; ++i) {
    if (!concessions.Has(static_cast<Concession>(i)) || warned_[i].exchange(true)) continue;
    INGOT_LOG(warn, "the chat template {}: serving and training now render such conversations with the workaround '{}'",
              rejection.ok() ? std::string("omits a system message")
                             : absl::StrCat("rejects a conversation (", rejection.message(), ")"),
              kConcessionNames[i]);
  }
}

}  // namespace ingot::text

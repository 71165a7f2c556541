// Renders a conversation in the form that its chat template accepts: unchanged, or with concessions.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/chat/fitted_conversation.h"
#include "text/chat/template_layout.h"
#include "text/chat/template_messages.h"
#include "text/output/output_format.h"

namespace ingot::text {

// A rendered conversation with the positions of its messages.
struct Layout {
  jinja::RenderedText rendered;
  std::vector<size_t> ends;       // for each message, its end in the text
  size_t prompt_begin = 0;        // start of the generation prompt
  std::string generation_prompt;  // set even if it was not requested
};

// Returns the region from the end of the previous message to the end of `message`.
Region RegionOf(const Layout& layout, size_t message);

// REQUIRES: the original outlives this object.
struct TakenConversation {
  const Conversation* original = nullptr;
  std::optional<FittedConversation> fitted = {};  // nullopt = the template accepts the original
  TemplateInput input = {};                       // for messages()
  Layout layout = {};

  const std::vector<Message>& messages() const { return (fitted ? fitted->conversation : *original).messages; }
  // The first and last messages that contain text from the original's message `i`.
  size_t First(size_t i) const { return fitted ? fitted->first[i] : i; }
  size_t Last(size_t i) const { return fitted ? fitted->last[i] : i; }
  bool JoinsBefore(size_t i) const { return fitted && fitted->JoinsBefore(i); }
  Concessions concessions() const { return fitted ? fitted->changed : Concessions(); }
};

// `i` is a message index in the original.
Region RegionOf(const TakenConversation& taken, size_t i);

// Returns whether the template omitted a system message. A single system message at the beginning is not counted.
bool LeavesOutSystem(std::span<const Message> messages, const jinja::RenderedText& rendered);

// Immutable, except for its record of which concessions were logged. Thread safe.
class ConversationTaker {
 public:
  ConversationTaker(std::shared_ptr<const ChatTemplate> chat_template, std::shared_ptr<const OutputFormat> output,
                    const TemplateDialect& dialect)
      : template_(std::move(chat_template)), output_(std::move(output)), dialect_(dialect) {}

  // Renders messages [0, count) and finds their positions.
  absl::StatusOr<Layout> LayOut(const TemplateInput& input, size_t count, bool add_generation_prompt) const;

  // Lays out the conversation with the fewest concessions that make the template accept it, that is, render the
  // messages and omit no system message. If concessions do not help, the conversation is kept unchanged, or rejected.
  // Logs each concession only the first time.
  absl::StatusOr<TakenConversation> TakeConversation(const Conversation& conversation,
                                                     bool add_generation_prompt) const;

 private:
  // Used for templates that do not loop over the messages. Message i ends where the text starts to change when more
  // messages are added.
  absl::StatusOr<std::vector<size_t>> EndsByPrefixes(const TemplateInput& input, size_t count,
                                                     const jinja::RenderedText& whole, size_t end) const;
  absl::StatusOr<TakenConversation> TakeWith(const Conversation& conversation, std::optional<FittedConversation> fitted,
                                             bool add_generation_prompt) const;
  // Returns NOT_FOUND if `needed`, one of the `wanted` concessions, has no effect.
  absl::StatusOr<TakenConversation> TakeFitted(const Conversation& conversation, Concessions wanted, Concession needed,
                                               bool add_generation_prompt) const;
  // `rejection` is the error for the unchanged conversation.
  void Report(Concessions concessions, const absl::Status& rejection) const;

  const std::shared_ptr<const ChatTemplate> template_;
  const std::shared_ptr<const OutputFormat> output_;
  const TemplateDialect dialect_;
  mutable std::array<std::atomic<bool>, kConcessions> warned_ = {};
};

}  // namespace ingot::text

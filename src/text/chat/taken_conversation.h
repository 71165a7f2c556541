// A conversation as its chat template accepts it: as it is, or with concessions.
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

// A rendered conversation with the places of its messages.
struct Layout {
  jinja::RenderedText rendered;
  std::vector<size_t> ends;       // per message: where it ends in the text
  size_t prompt_begin = 0;        // where the generation prompt begins
  std::string generation_prompt;  // set even if it was not requested
};

// From the end of the previous message to the end of the message.
Region RegionOf(const Layout& layout, size_t message);

// REQUIRES: the original outlives it.
struct TakenConversation {
  const Conversation* original = nullptr;
  std::optional<FittedConversation> fitted = {};  // nullopt: the template accepts the original
  TemplateInput input = {};                       // of the messages below
  Layout layout = {};

  const std::vector<Message>& messages() const { return (fitted ? fitted->conversation : *original).messages; }
  // The messages that have text of message `i` of the original.
  size_t First(size_t i) const { return fitted ? fitted->first[i] : i; }
  size_t Last(size_t i) const { return fitted ? fitted->last[i] : i; }
  bool JoinsBefore(size_t i) const { return fitted && fitted->JoinsBefore(i); }
  Concessions concessions() const { return fitted ? fitted->changed : Concessions(); }
};

// Of message `i` of the original.
Region RegionOf(const TakenConversation& taken, size_t i);

// Whether the template left out a system message, other than a single system message at the beginning.
bool LeavesOutSystem(std::span<const Message> messages, const jinja::RenderedText& rendered);

// Immutable except for what it has logged; thread safe.
class ConversationTaker {
 public:
  ConversationTaker(std::shared_ptr<const ChatTemplate> chat_template, std::shared_ptr<const OutputFormat> output,
                    const TemplateDialect& dialect)
      : template_(std::move(chat_template)), output_(std::move(output)), dialect_(dialect) {}

  // Renders messages [0, count) and finds their places.
  absl::StatusOr<Layout> LayOut(const TemplateInput& input, size_t count, bool add_generation_prompt) const;

  // Lays the conversation out with the fewest concessions with which the template accepts it: it renders the messages
  // and does not leave a system message out. If no concessions help, the conversation stays as it is, or is rejected.
  // Logs each concession once.
  absl::StatusOr<TakenConversation> TakeConversation(const Conversation& conversation,
                                                     bool add_generation_prompt) const;

 private:
  // For templates that do not loop over the messages: message i ends where more messages begin to change the text.
  absl::StatusOr<std::vector<size_t>> EndsByPrefixes(const TemplateInput& input, size_t count,
                                                     const jinja::RenderedText& whole, size_t end) const;
  absl::StatusOr<TakenConversation> TakeWith(const Conversation& conversation, std::optional<FittedConversation> fitted,
                                             bool add_generation_prompt) const;
  // NOT_FOUND: `needed`, one of `wanted`, has no effect.
  absl::StatusOr<TakenConversation> TakeFitted(const Conversation& conversation, Concessions wanted, Concession needed,
                                               bool add_generation_prompt) const;
  // `rejection`: of the conversation as it is.
  void Report(Concessions concessions, const absl::Status& rejection) const;

  const std::shared_ptr<const ChatTemplate> template_;
  const std::shared_ptr<const OutputFormat> output_;
  const TemplateDialect dialect_;
  mutable std::array<std::atomic<bool>, kConcessions> warned_ = {};
};

}  // namespace ingot::text

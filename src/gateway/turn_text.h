// A turn's ids to what its client sees: text that may be streamed as it comes, and the message at its end. Streaming
// and not give the same message, because both come from here. Not thread safe.
//
//   ids -> bytes -> whole UTF-8 characters -> minus what could be a stop string -> minus what could be a tool call ->
//   deltas
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "text/chat.h"
#include "text/tokenizer.h"

namespace ingot::gateway {

// What a turn's text is read as.
enum class Reading {
  kMessage,
  kNoTools,  // what looks like a tool call is text
  kRaw,      // all of it is content
};

class TurnText {
 public:
  // `stop`: stop strings, which are no part of the text.
  TurnText(std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<const text::ChatFormat> format,
           std::vector<std::string> stop, Reading reading);

  void Push(std::span<const int32_t> ids);
  // No more ids come. `stop_string` is the one that ended the turn, or empty: text from it on is cut.
  void Finish(const std::string& stop_string);

  struct Delta {
    std::string content;
    std::string reasoning;
    bool empty() const { return content.empty() && reasoning.empty(); }
  };
  // What may be sent beyond all deltas before. Deltas hold whole characters and add up to the finished message.
  Delta TakeDelta();

  // REQUIRES: Finish was called. Tool calls have no ids.
  const text::ParsedOutput& message() const { return message_; }
  // How many ids have all their text in the deltas taken so far.
  int delivered_tokens() const;
  // The ids [first, last) that the text of the reasoning so far came from.
  std::pair<int, int> reasoning_ids() const;

 private:
  void Decode(std::span<const int32_t> ids);
  text::ParsedOutput Parse(std::string_view text) const;
  text::ParsedOutput ParseWhole() const;
  size_t Settled(std::string_view visible) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::shared_ptr<const text::ChatFormat> format_;
  const std::vector<std::string> stop_;
  const Reading reading_;

  text::Utf8Stream utf8_;
  std::string text_;
  std::vector<int32_t> held_end_;                 // an end-of-turn id, text only if others follow it
  std::vector<size_t> token_ends_;                // size of text_ after each id
  size_t settled_ = 0;                            // of text_, covered by the deltas
  size_t sent_content_ = 0, sent_reasoning_ = 0;  // bytes of the message's
  bool finished_ = false;
  text::ParsedOutput message_;
};

}  // namespace ingot::gateway

// A turn's ids to what its client sees: pieces that may be sent as they come, and the message at its end. Streaming and
// not give the same message in the same pieces, because both come from here, id by id. Linear in the turn. Not thread
// safe.
//
//   ids -> bytes -> whole UTF-8 characters -> minus what could be a stop string -> text::OutputStream -> pieces
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/part_kind.h"
#include "gateway/prompt/stop_hold.h"
#include "text/output_stream.h"
#include "text/tokenizer.h"

namespace ingot::gateway {

class TurnText {
 public:
  struct Options {
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::vector<int32_t> ends = {};                         // ids that end a turn; no text where they do
    std::shared_ptr<const text::OutputFormat> format = {};  // null: all text is content
    text::ParseOptions reading = {};                        // its memory is read by the constructor only
    std::vector<std::string> stop = {};                     // strings that are no part of the text
    bool marks_content = false;                             // is_content will be asked
  };
  explicit TurnText(const Options& options);

  void Push(std::span<const int32_t> ids);
  // No more ids come. `stop_string` is the one that ended the turn, or empty: text from it on is cut.
  void Finish(const std::string& stop_string);

  // A piece of the message, in the order in which the model wrote it.
  struct Delta {
    PartKind kind = PartKind::kContent;
    std::string text;     // whole characters; of a call, of its arguments
    bool begins = false;  // of a call: its first piece, with its final name
    std::string name;
    int last_id = 0;  // the first so many ids led to it
  };
  // What may be sent beyond all pieces before. They add up to the finished message.
  std::vector<Delta> Take();

  // REQUIRES: Finish was called. Tool calls have the ids that the model wrote, if any.
  const text::ParsedOutput& message() const { return stream_.has_value() ? stream_->message() : raw_; }
  // How many calls nothing can be added to any more.
  size_t closed_calls() const { return stream_.has_value() ? stream_->closed_calls() : 0; }
  // How many ids have all their text in the pieces taken so far.
  int delivered_tokens() const { return delivered_; }
  // Whether text of the content taken so far came from this id.
  bool is_content(int id) const { return static_cast<size_t>(id) < ids_.size() && ids_[id].is_content; }
  // How many ids the text of the reasoning so far came from.
  int reasoning_tokens() const { return reasoning_end_ - reasoning_begin_; }

 private:
  struct Id {
    size_t end;     // of its text in text_
    bool is_token;  // written out, with a meaning of its own
    bool is_content = false;
  };
  void Add(int32_t id);
  void Append(std::string_view text);
  void Feed(size_t limit);
  void Read(std::string_view text, bool is_token);
  void Tell(text::OutputDelta delta);
  void MarkContent(std::string_view content);
  void MarkContent(size_t begin, size_t end);
  void Tell(PartKind kind, std::string text, const text::CallDelta* call);

  const Options options_;  // but for `reading`
  std::optional<text::OutputStream> stream_;
  text::ParsedOutput raw_;  // where there is no stream_
  std::vector<StopHold> stops_;
  text::DecodeStream decode_;
  std::optional<int32_t> held_end_;  // an id that ends a turn, text only if others follow it

  std::string text_;
  std::vector<Id> ids_;
  size_t whole_ids_ = 0;  // ids whose text ends with a whole character
  size_t fed_ = 0;        // bytes of text_ that were read
  size_t next_ = 0;       // the id whose text was read last
  std::vector<Delta> untaken_;
  int delivered_ = 0;
  int reasoning_begin_ = 0, reasoning_end_ = 0;  // ids
  bool finished_ = false;
};

}  // namespace ingot::gateway

// Decodes a turn id by id into pieces that can be sent immediately, and into a message at the end. Streamed and
// complete answers consist of the same pieces. Runs in time linear in the turn's length. Not thread safe.
//
//   ids -> bytes -> whole UTF-8 characters -> hold back a stop string's prefix -> text::OutputStream -> pieces
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gateway/part_kind.h"
#include "gateway/prompt/stop_hold.h"
#include "text/output/output_stream.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::gateway {

class TurnText {
 public:
  struct Options {
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::vector<int32_t> ends = {};  // end-of-turn ids; if the last id is one of them, it has no text
    std::shared_ptr<const text::OutputFormat> format = {};  // null = all text is content
    text::ParseOptions reading = {};                        // the data it points to is read only in the constructor
    std::vector<std::string> stop = {};                     // stop strings, which are excluded from the text
    bool emits_stop = false;                                // the text includes the stop string that ended the turn
    int stop_from = 0;           // number of leading ids that are not searched for stop strings
    bool marks_content = false;  // is_content will be called
  };
  explicit TurnText(const Options& options);

  void Push(std::span<const int32_t> ids);
  // Called when no more ids will arrive. `stop_string` is the stop string that ended the turn, where the text is
  // truncated. Empty = none.
  void Finish(const std::string& stop_string);

  // A piece of the message.
  struct Delta {
    PartKind kind = PartKind::kContent;
    std::string text;     // whole characters; for a call, a piece of its arguments
    bool begins = false;  // the first piece of a call, which already has its final name
    std::string name;
    int last_id = 0;  // number of ids up to this piece's last character
  };
  // Returns the pieces that can be sent and have not been taken yet, in the order the model wrote them. Together, they
  // form the message.
  std::vector<Delta> TakeDeltas();

  // REQUIRES: Finish was called. Tool calls have the ids that the model wrote, if any.
  const text::ParsedOutput& message() const { return stream_.has_value() ? stream_->message() : raw_; }
  // Returns the number of complete tool calls.
  size_t closed_calls() const { return stream_.has_value() ? stream_->closed_calls() : 0; }
  // Returns the number of ids whose text is in the pieces taken so far.
  int delivered_tokens() const { return delivered_; }
  // Returns true if the content taken so far includes text from this id.
  bool is_content(int id) const { return static_cast<size_t>(id) < ids_.size() && ids_[id].is_content; }
  // Returns the number of reasoning ids so far.
  int reasoning_tokens() const { return reasoning_end_ - reasoning_begin_; }

 private:
  struct Id {
    size_t end;     // end of its text in text_
    bool is_token;  // a special token, which the output format treats as a delimiter
    bool is_content = false;
  };
  void Add(int32_t id);
  void Append(std::string_view text, size_t id);
  void Feed(size_t limit);
  void Read(std::string_view text, bool is_token);
  void Emit(text::OutputDelta delta);
  void MarkContent(std::string_view content);
  void MarkContent(size_t begin, size_t end);
  void Emit(PartKind kind, std::string text, const text::CallDelta* call);

  const Options options_;  // without `reading`
  std::optional<text::OutputStream> stream_;
  text::ParsedOutput raw_;  // used if stream_ is not set
  std::vector<StopHold> stops_;
  text::DecodeStream decode_;
  std::optional<int32_t> held_end_;  // an end-of-turn id, which becomes text only if more ids follow

  std::string text_;
  std::vector<Id> ids_;
  size_t stop_begin_ = 0;  // number of bytes at the start of text_ that are not searched for stop strings
  size_t whole_ids_ = 0;   // number of ids up to the last id that ends with a whole character
  size_t fed_ = 0;         // bytes of text_ passed to stream_
  size_t next_ = 0;        // index of the id whose text was read last
  std::vector<Delta> untaken_;
  int delivered_ = 0;
  int reasoning_begin_ = 0, reasoning_end_ = 0;  // ids
  bool finished_ = false;
};

}  // namespace ingot::gateway

#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

std::string Tokenizer::DecodeText(std::span<const int32_t> ids, bool skip_special) const {
  return ToUtf8(Decode(ids, skip_special));
}

void Tokenizer::DecodeNext(int32_t id, bool skip_special, DecodeState& state, std::string& out) const {
  out += Decode(std::span(&id, 1), skip_special);
  state.started = true;
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  DecodeState state = DecodeState::MidText();
  std::string bytes;
  DecodeNext(id, /*skip_special=*/false, state, bytes);
  bytes.append(static_cast<size_t>(state.held_spaces), ' ');
  return bytes;
}

std::string DecodeStream::Push(int32_t id) {
  std::string bytes;
  tokenizer_->DecodeNext(id, skip_special_, state_, bytes);
  return utf8_.Push(bytes);
}

}  // namespace ingot::text

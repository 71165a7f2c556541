#include "text/tokenizer/token_decoder.h"

#include <functional>
#include <optional>
#include <unordered_map>

#include "text/tokenizer/alphabet_tokenizer.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/split_pattern.h"
#include "text/unicode/unicode.h"

namespace ingot::text {
namespace {

namespace json = base::json;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns the bytes that a byte-level token spells. A token with a character that spells no byte is returned unchanged.
std::string Unspell(const std::string& token) {
  static const auto* const bytes = [] {
    auto* map = new std::unordered_map<std::string, char>();
    for (int byte = 0; byte < 256; ++byte) (*map)[ByteSpelling()[byte]] = static_cast<char>(byte);
    return map;
  }();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const size_t size = DecodeAt(token, at).size;
    const auto found = bytes->find(token.substr(at, size));
    if (found == bytes->end()) return token;
    out += found->second;
    at += size;
  }
  return out;
}

// Returns the byte of a token such as <0xE2>, or -1 if it is another token. Like Rust's parser, accepts a plus sign
// before the digits.
int FallbackByte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int value = 0;
  for (size_t i = 3; i < 5; ++i) {
    const char c = token[i];
    if (i == 3 && c == '+') continue;
    if (!std::isxdigit(static_cast<uint8_t>(c))) return -1;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return value;
}

std::string ReplaceAll(const SplitPattern& pattern, const std::string& content, const std::string& text) {
  std::string out;
  size_t done = 0;
  MatchIterator matches(pattern, text);
  for (Regex::Match match; matches.Next(&match); done = match.end) {
    out.append(text, done, match.begin - done);
    out += content;
  }
  out.append(text, done);
  return out;
}

std::string StripText(std::string text, char c, int32_t start, int32_t stop) {
  size_t begin = 0;
  while (begin < text.size() && begin < static_cast<size_t>(start) && text[begin] == c) ++begin;
  size_t end = text.size();
  while (end > begin && text.size() - end < static_cast<size_t>(stop) && text[end - 1] == c) --end;
  return text.substr(begin, end - begin);
}

struct StripOptions {
  char c = ' ';
  int32_t start = 0;
  int32_t stop = 0;
};

absl::StatusOr<StripOptions> ReadStrip(const json::value& component) {
  INGOT_ASSIGN_OR_RETURN(const std::string content, ReadString(component, "content", "decoder Strip"));
  if (content.size() != 1) return UnsupportedComponent("decoder Strip of anything except one ASCII character");
  StripOptions options;
  options.c = content[0];
  for (const auto& [field, count] : {std::pair{"start", &options.start}, std::pair{"stop", &options.stop}}) {
    const json::value* value = base::Find(component, field);
    if (value == nullptr || !value->is_int64() || value->get_int64() < 0 || value->get_int64() > 1000) {
      return MalformedComponent(absl::StrCat("decoder Strip: ", field, " must be from 0 to 1000"));
    }
    *count = static_cast<int32_t>(value->get_int64());
  }
  return options;
}

}  // namespace

// The steps in the file's decoder, read component by component.
struct TokenDecoder::Plan {
  std::vector<std::function<std::string(std::string)>> each;  // applied to every token's string
  // Replaces the last function in `each` for the first token.
  std::optional<std::function<std::string(std::string)>> each_first;
  bool byte_fallback = false;
  bool fused = false;  // the components after it see the whole text
  std::optional<StripOptions> strip;

  absl::Status Read(const json::value& component, int depth) {
    const std::string type = TypeOf(component);
    if (type == "Sequence") {
      const json::value* list = base::Find(component, "decoders");
      if (list == nullptr || !list->is_array() || depth > 8) {
        return MalformedComponent("decoder Sequence needs a list of decoders, nested at most 8 levels deep");
      }
      for (const json::value& item : list->get_array()) INGOT_RETURN_IF_ERROR(Read(item, depth + 1));
      return absl::OkStatus();
    }
    if (type == "Fuse") {
      fused = true;
      return absl::OkStatus();
    }
    if (type == "Strip") return AddStrip(component);
    if (type != "ByteLevel" && type != "ByteFallback" && type != "Metaspace" && type != "Replace") {
      return UnsupportedComponent(absl::StrCat("decoder ", type));
    }
    if (fused) return UnsupportedComponent(absl::StrCat("decoder ", type, " after a decoder that fuses tokens"));
    if (byte_fallback) return UnsupportedComponent(absl::StrCat("decoder ", type, " after ByteFallback"));
    if (each_first) return UnsupportedComponent(absl::StrCat("decoder ", type, " after Metaspace"));
    if (type == "ByteLevel") {
      each.push_back(Unspell);
      fused = true;
      return absl::OkStatus();
    }
    if (type == "ByteFallback") {
      byte_fallback = true;
      return absl::OkStatus();
    }
    return type == "Metaspace" ? AddMetaspace(component) : AddReplace(component);
  }

 private:
  absl::Status AddStrip(const json::value& component) {
    INGOT_ASSIGN_OR_RETURN(const StripOptions options, ReadStrip(component));
    if (fused) {
      if (strip) return UnsupportedComponent("more than one decoder Strip");
      strip = options;
      return absl::OkStatus();
    }
    if (byte_fallback) return UnsupportedComponent("decoder Strip right after ByteFallback");
    if (each_first) return UnsupportedComponent("decoder Strip after Metaspace");
    each.push_back(
        [options](std::string text) { return StripText(std::move(text), options.c, options.start, options.stop); });
    return absl::OkStatus();
  }

  absl::Status AddMetaspace(const json::value& component) {
    INGOT_ASSIGN_OR_RETURN(const std::string from, ReadString(component, "replacement", "decoder Metaspace"));
    if (from.empty() || DecodeAt(from, 0).size != from.size()) {
      return MalformedComponent("decoder Metaspace needs a replacement of one character");
    }
    bool never = false;
    if (base::Find(component, "prepend_scheme") != nullptr) {
      INGOT_ASSIGN_OR_RETURN(const std::string scheme, ReadString(component, "prepend_scheme", "decoder Metaspace"));
      never = scheme == "never";
    }
    const auto pattern = LiteralPattern(from);
    each.push_back([pattern](const std::string& text) { return ReplaceAll(*pattern, " ", text); });
    if (!never) each_first = [pattern](const std::string& text) { return ReplaceAll(*pattern, "", text); };
    return absl::OkStatus();
  }

  absl::Status AddReplace(const json::value& component) {
    INGOT_ASSIGN_OR_RETURN(const auto pattern, ReadPattern(component, "decoder Replace"));
    INGOT_ASSIGN_OR_RETURN(const std::string content, ReadString(component, "content", "decoder Replace"));
    each.push_back([pattern, content](const std::string& text) { return ReplaceAll(*pattern, content, text); });
    return absl::OkStatus();
  }
};

absl::StatusOr<TokenDecoder> TokenDecoder::Read(const json::value* json, std::vector<Token> tokens) {
  Plan plan;
  TokenDecoder decoder;
  if (IsNullOrMissing(json)) {
    decoder.separator_ = " ";
  } else {
    INGOT_RETURN_IF_ERROR(plan.Read(*json, 0));
  }
  decoder.byte_fallback_ = plan.byte_fallback;
  if (plan.strip) {
    decoder.strip_start_char_ = decoder.strip_stop_char_ = plan.strip->c;
    decoder.strip_start_ = plan.strip->start;
    decoder.strip_stop_ = plan.strip->stop;
  }
  decoder.tokens_.resize(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].exists) continue;
    std::string text = std::move(tokens[id].text);
    std::string first;
    for (size_t i = 0; i < plan.each.size(); ++i) {
      if (plan.each_first && i + 1 == plan.each.size()) first = (*plan.each_first)(text);
      text = plan.each[i](std::move(text));
    }
    const int byte = plan.byte_fallback ? FallbackByte(text) : -1;
    if (byte >= 0) text = std::string(1, static_cast<char>(byte));
    Bytes& entry = decoder.tokens_[id];
    entry.begin = static_cast<uint32_t>(decoder.arena_.size());
    entry.size = static_cast<uint32_t>(text.size());
    entry.exists = true;
    entry.special = tokens[id].special;
    entry.byte = byte >= 0;
    decoder.arena_ += text;
    if (plan.each_first && first != text) {
      entry.first_differs = true;
      entry.first_size = static_cast<uint32_t>(first.size());
      decoder.arena_ += first;
    }
  }
  return decoder;
}

const TokenDecoder::Bytes* TokenDecoder::Find(int32_t id, bool skip_special) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return nullptr;
  const Bytes& token = tokens_[id];
  return token.exists && !(skip_special && token.special) ? &token : nullptr;
}

void TokenDecoder::Append(std::string_view text, DecodeState& state, std::string& out) const {
  while (state.stripped >= 0 && !text.empty()) {
    if (state.stripped >= strip_start_ || text[0] != strip_start_char_) {
      state.stripped = -1;
    } else {
      ++state.stripped;
      text.remove_prefix(1);
    }
  }
  if (strip_stop_ == 0 || text.empty()) {
    out += text;
    return;
  }
  size_t end = text.size();
  while (end > 0 && text[end - 1] == strip_stop_char_) --end;
  const size_t trailing = text.size() - end + (end == 0 ? static_cast<size_t>(state.held_spaces) : 0);
  if (end > 0) {
    out.append(static_cast<size_t>(state.held_spaces), strip_stop_char_);
    out += text.substr(0, end);
  }
  const size_t held = std::min(trailing, static_cast<size_t>(strip_stop_));
  out.append(trailing - held, strip_stop_char_);
  state.held_spaces = static_cast<int32_t>(held);
}

void TokenDecoder::Next(int32_t id, bool skip_special, DecodeState& state, std::string& out) const {
  const Bytes* token = Find(id, skip_special);
  if (token == nullptr) return;
  const bool first = !state.started;
  state.started = true;
  if (!first && !separator_.empty()) Append(separator_, state, out);
  std::string_view text = std::string_view(arena_).substr(token->begin, token->size);
  if (first && token->first_differs) {
    text = std::string_view(arena_).substr(token->begin + token->size, token->first_size);
  }
  Append(text, state, out);
}

std::string TokenDecoder::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string out;
  out.reserve(ids.size() * 4);
  DecodeState state;
  for (const int32_t id : ids) Next(id, skip_special, state, out);
  return out;
}

std::string TokenDecoder::DecodeText(std::span<const int32_t> ids, bool skip_special) const {
  if (!byte_fallback_) return ToUtf8(Decode(ids, skip_special));
  std::string out;
  DecodeState state;
  std::string run;  // a run of byte tokens
  const auto end_run = [&] {
    if (IsValidUtf8(run)) {
      Append(run, state, out);
    } else {
      for (size_t i = 0; i < run.size(); ++i) Append(kReplacement, state, out);
    }
    run.clear();
  };
  for (const int32_t id : ids) {
    const Bytes* token = Find(id, skip_special);
    if (token == nullptr) continue;
    if (token->byte) {
      run += arena_[token->begin];
      continue;
    }
    end_run();
    Append(std::string_view(arena_).substr(token->begin, token->size), state, out);
  }
  end_run();
  return out;
}

}  // namespace ingot::text

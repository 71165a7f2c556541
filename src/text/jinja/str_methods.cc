// Implements the methods of str.
#include <algorithm>
#include <array>

#include "text/jinja/budget.h"
#include "text/jinja/markup.h"
#include "text/jinja/methods.h"
#include "text/jinja/params.h"

namespace ingot::text::jinja {
namespace {

Value Integer(size_t n) { return Value(static_cast<int64_t>(n)); }

// Returns the bytes of `text` between the arguments start and end, which count code points and are clamped like slices.
Range Window(const Str& text, const Params& params, size_t first) {
  const auto size = static_cast<int64_t>(text.chars);
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t begin = clamp(params.Integer(first, 0)), end = clamp(params.Integer(first + 1, size));
  if (begin >= end && params.Integer(first, 0) > size) return {1, 0};
  if (text.ascii()) return {static_cast<size_t>(begin), static_cast<size_t>(std::max(begin, end))};
  return {ByteOffset(text.bytes, begin), ByteOffset(text.bytes, std::max(begin, end))};
}

std::string_view Cut(const Str& text, const Range& range) {
  return text.view().substr(range.begin, range.end - range.begin);
}

template <bool kLeft, bool kRight>
Value Strip(const StrPtr& self, const Args& args) {
  const Params params("strip", args, {"chars"});
  std::string_view chars;
  const bool given = params.has(0) && !params[0].is_none();
  if (given) {
    chars = params.RequireText(0)->view();
    ChargeScan(self->bytes.size() * std::min<size_t>(chars.size(), 64));
    if (chars.size() > 4096) FailLimit("strip() supports at most 4096 bytes of characters");
    ChargeSteps(chars.size());
  }
  const Range range = StripRange(self->bytes, kLeft, kRight, given ? &chars : nullptr);
  return Value(Substring(self, range.begin, range.end));
}

template <bool kStart>
Value Affix(const StrPtr& self, const Args& args) {
  const Params params(kStart ? "startswith" : "endswith", args, {"prefix", "start", "end"}, 1);
  const Range range = Window(*self, params, 1);
  if (range.begin > range.end) return Value(false);
  const std::string_view text = Cut(*self, range);
  const auto matches = [&](const Value& part) {
    if (!part.is_str()) {
      Fail(absl::StrCat("TypeError: ", kStart ? "startswith" : "endswith",
                        " first arg must be str or a tuple of str, not ", TypeName(part)));
    }
    return kStart ? text.starts_with(part.str()->view()) : text.ends_with(part.str()->view());
  };
  if (!params[0].is_seq() || !params[0].seq()->is_tuple()) return Value(matches(params[0]));
  const std::vector<Value>& parts = params[0].seq()->items;
  return Value(std::any_of(parts.begin(), parts.end(), matches));
}

// Returns the byte offset of the first or last occurrence, or npos if there is none.
size_t Locate(const Str& self, const Params& params, bool last) {
  const Range range = Window(self, params, 1);
  if (range.begin > range.end) return std::string_view::npos;
  const std::string_view text = Cut(self, range), part = params.RequireText(0)->view();
  size_t found = FindText(text, part);
  if (last && found != std::string_view::npos) {
    if (part.empty()) {
      found = text.size();
    } else {
      for (size_t next = found; next != std::string_view::npos; next = FindText(text, part, next + 1)) {
        ChargeScan(part.size());
        found = next;
      }
    }
  }
  return found == std::string_view::npos ? found : found + range.begin;
}

template <bool kLast, bool kMustExist>
Value Find(const StrPtr& self, const Args& args) {
  const Params params("find", args, {"sub", "start", "end"}, 1);
  const size_t at = Locate(*self, params, kLast);
  if (at == std::string_view::npos) {
    if (kMustExist) Fail("ValueError: substring not found");
    return Value(int64_t{-1});
  }
  return Integer(CountCharacters(self->view().substr(0, at)));
}

Value Count(const StrPtr& self, const Args& args) {
  const Params params("count", args, {"sub", "start", "end"}, 1);
  const Range range = Window(*self, params, 1);
  if (range.begin > range.end) return Integer(0);
  const std::string_view text = Cut(*self, range), part = params.RequireText(0)->view();
  if (part.empty()) return Integer(CountCharacters(text) + 1);
  size_t count = 0;
  for (size_t at = FindText(text, part); at != text.npos; at = FindText(text, part, at + part.size())) ++count;
  return Integer(count);
}

Value Pieces(const StrPtr& self, const std::vector<Range>& ranges) {
  std::vector<Value> items;
  for (const Range& range : ranges) {
    items.push_back(Value(Substring(self, range.begin, range.end)));
  }
  return MakeList(std::move(items));
}

// Splits at runs of whitespace, from the right if `right`.
std::vector<Range> SplitAtSpace(std::string_view text, int64_t most, bool right) {
  std::vector<Range> words;
  Range rest = StripRange(text, true, true, nullptr);
  while (rest.begin < rest.end) {
    if (most-- == 0) {
      words.push_back(right ? Range{0, rest.end} : Range{rest.begin, text.size()});  // the far side is not stripped
      break;
    }
    size_t cut = right ? rest.end : rest.begin;
    while (cut > rest.begin || !right) {
      if (!right && cut == rest.end) break;
      size_t next = cut;
      if (IsSpace(right ? PreviousCharacter(text, next) : NextCharacter(text, next))) break;
      cut = next;
    }
    words.push_back(right ? Range{cut, rest.end} : Range{rest.begin, cut});
    (right ? rest.end : rest.begin) = cut;
    const Range inner = StripRange(text.substr(rest.begin, rest.end - rest.begin), !right, right, nullptr);
    rest = {rest.begin + inner.begin, rest.begin + inner.end};
  }
  if (right) std::reverse(words.begin(), words.end());
  return words;
}

std::vector<Range> SplitAt(std::string_view text, std::string_view separator, int64_t most, bool right) {
  std::vector<size_t> cuts;
  if (right && most >= 0) {
    size_t end = text.size();
    for (; most > 0; --most) {
      ChargeScan(end);
      const size_t at = text.substr(0, end).rfind(separator);
      if (at == text.npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (size_t at = FindText(text, separator); at != text.npos && most != 0; --most) {
      cuts.push_back(at);
      at = FindText(text, separator, at + separator.size());
    }
  }
  std::vector<Range> pieces;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    pieces.push_back({begin, cut});
    begin = cut + separator.size();
  }
  pieces.push_back({begin, text.size()});
  return pieces;
}

template <bool kRight>
Value Split(const StrPtr& self, const Args& args) {
  const Params params(kRight ? "rsplit" : "split", args, {"sep", "maxsplit"});
  const int64_t most = params.Integer(1, -1);
  if (!params.has(0) || params[0].is_none()) return Pieces(self, SplitAtSpace(self->bytes, most, kRight));
  const StrPtr& separator = params.RequireText(0);
  if (separator->bytes.empty()) Fail("ValueError: empty separator");
  return Pieces(self, SplitAt(self->bytes, separator->bytes, most, kRight));
}

Value SplitLines(const StrPtr& self, const Args& args) {
  const Params params("splitlines", args, {"keepends"});
  return Pieces(self, LineRanges(self->bytes, params.Flag(0, false)));
}

template <bool kRight>
Value Partition(const StrPtr& self, const Args& args) {
  const Params params("partition", args, {"sep"}, 1);
  const StrPtr& separator = params.RequireText(0);
  if (separator->bytes.empty()) Fail("ValueError: empty separator");
  const size_t at = kRight ? self->bytes.rfind(separator->bytes) : FindText(self->bytes, separator->bytes);
  const Value empty(Substring(self, 0, 0)), whole(self);
  if (at == std::string::npos)
    return MakeTuple(kRight ? std::vector{empty, empty, whole} : std::vector{whole, empty, empty});
  const size_t after = at + separator->bytes.size();
  return MakeTuple({Value(Substring(self, 0, at)), Value(WithMarkup(separator, self->markup)),
                    Value(Substring(self, after, self->bytes.size()))});
}

Value Replace(const StrPtr& self, const Args& args) {
  const Params params("replace", args, {"old", "new", "count"}, 2);
  const StrPtr& to = params.RequireText(1);
  return Value(ReplaceText(self, *params.RequireText(0), *(self->markup ? Escaped(to) : to), params.Integer(2, -1)));
}

Value Join(const StrPtr& self, const Args& args) {
  const Params params("join", args, {"iterable"}, 1);
  std::vector<StrPtr> parts;
  for (const Value& item : Items(params[0])) {
    if (!item.is_str()) {
      Fail(absl::StrCat("TypeError: sequence item ", parts.size(), ": expected str instance, ", TypeName(item),
                        " found"));
    }
    parts.push_back(self->markup ? Escaped(item.str()) : item.str());
  }
  return Value(JoinTexts(*self, parts, self->markup));
}

template <bool kPrefix>
Value Remove(const StrPtr& self, const Args& args) {
  const Params params(kPrefix ? "removeprefix" : "removesuffix", args, {"affix"}, 1);
  const std::string& part = params.RequireText(0)->bytes;
  const size_t size = self->bytes.size();
  if (kPrefix) return Value(Substring(self, self->bytes.starts_with(part) ? part.size() : 0, size));
  return Value(Substring(self, 0, self->bytes.ends_with(part) ? size - part.size() : size));
}

// center, ljust, rjust. str.center puts an odd space on the left or right by Python's rule.
template <char kAlign>
Value Justify(const StrPtr& self, const Args& args) {
  const Params params("center", args, {"width", "fillchar"}, 1);
  const StrPtr fill = params.Text(1, " ");
  if (fill->chars != 1) Fail("TypeError: The fill character must be exactly one character long");
  const int64_t width = params.Integer(0, 0), missing = width - static_cast<int64_t>(self->chars);
  if (missing <= 0) return Value(self);
  int64_t left = kAlign == '>' ? missing : 0;
  if (kAlign == '^') left = missing / 2 + (missing & width & 1);
  ChargeBytes(static_cast<uint64_t>(missing) * fill->bytes.size());
  StrBuilder out;
  for (int64_t i = 0; i < left; ++i) out.Append(*fill);
  out.Append(*self);
  for (int64_t i = left; i < missing; ++i) out.Append(*fill);
  return Value(out.Release(self->markup));
}

Value ZeroFill(const StrPtr& self, const Args& args) {
  const Params params("zfill", args, {"width"}, 1);
  const int64_t missing = params.Integer(0, 0) - static_cast<int64_t>(self->chars);
  if (missing <= 0) return Value(self);
  const bool sign = self->bytes.starts_with('+') || self->bytes.starts_with('-');
  StrBuilder out;
  out.Append(*self, 0, sign);
  out.AppendChars(missing, '0');
  out.Append(*self, sign, self->bytes.size());
  return Value(out.Release());
}

template <std::string (*kMap)(std::string_view)>
Value Mapped(const StrPtr& self, const Args& args) {
  const Params params("a case method", args, {});
  return Value(Derived(kMap(self->bytes), *self));
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCharacter(text, at);
    const std::string_view one = text.substr(begin, at - begin);
    out += IsUpper(c) ? Lower(one) : Upper(one);
  }
  return out;
}

std::string CaseFold(std::string_view text) {  // simple folding: differs from lower() only in a few ligatures
  std::string out = Lower(text);
  for (size_t at = 0; (at = out.find("\u00DF", at)) != std::string::npos;) out.replace(at, 2, "ss");
  return out;
}

template <bool (*kIs)(char32_t), bool kEmpty = false>
Value All(const StrPtr& self, const Args& args) {
  const Params params("is...", args, {});
  for (size_t at = 0; at < self->bytes.size();) {
    if (!kIs(NextCharacter(self->bytes, at))) return Value(false);
  }
  return Value(kEmpty || !self->bytes.empty());
}
bool IsAlnum(char32_t c) { return IsAlpha(c) || IsNumeric(c); }
bool IsAscii(char32_t c) { return c < 0x80; }

template <bool kUpper>
Value IsCase(const StrPtr& self, const Args&) {
  return Value(HasCase(self->bytes, kUpper));
}

Value IsTitleText(const StrPtr& self, const Args&) {
  bool inside = false, any = false;
  for (size_t at = 0; at < self->bytes.size();) {
    const char32_t c = NextCharacter(self->bytes, at);
    if (inside ? IsUpper(c) || IsTitle(c) : IsLower(c)) return Value(false);
    inside = IsCased(c);
    any = any || inside;
  }
  return Value(any);
}

Value IsIdentifier(const StrPtr& self, const Args&) {
  for (size_t at = 0; at < self->bytes.size();) {
    const bool first = at == 0;
    const char32_t c = NextCharacter(self->bytes, at);
    if (!IsWord(c) || (first && IsNumeric(c))) return Value(false);
  }
  return Value(!self->bytes.empty());
}

struct Entry {
  std::string_view name;
  StrMethod method;
};

constexpr auto kMethods = std::to_array<Entry>({
    {"strip", Strip<true, true>},
    {"lstrip", Strip<true, false>},
    {"rstrip", Strip<false, true>},
    {"startswith", Affix<true>},
    {"endswith", Affix<false>},
    {"split", Split<false>},
    {"rsplit", Split<true>},
    {"splitlines", SplitLines},
    {"replace", Replace},
    {"join", Join},
    {"find", Find<false, false>},
    {"rfind", Find<true, false>},
    {"index", Find<false, true>},
    {"rindex", Find<true, true>},
    {"count", Count},
    {"upper", Mapped<Upper>},
    {"lower", Mapped<Lower>},
    {"capitalize", Mapped<Capitalize>},
    {"title", Mapped<TitleWords>},
    {"swapcase", Mapped<SwapCase>},
    {"casefold", Mapped<CaseFold>},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"removeprefix", Remove<true>},
    {"removesuffix", Remove<false>},
    {"center", Justify<'^'>},
    {"ljust", Justify<'<'>},
    {"rjust", Justify<'>'>},
    {"zfill", ZeroFill},
    {"isspace", All<IsSpace>},
    {"isalpha", All<IsAlpha>},
    {"isalnum", All<IsAlnum>},
    {"isdigit", All<IsDecimal>},
    {"isdecimal", All<IsDecimal>},
    {"isnumeric", All<IsNumeric>},
    {"isascii", All<IsAscii, true>},
    {"isprintable", All<IsPrintable, true>},
    {"islower", IsCase<false>},
    {"isupper", IsCase<true>},
    {"istitle", IsTitleText},
    {"isidentifier", IsIdentifier},
});

}  // namespace

bool HasCase(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCharacter(text, at);
    if (IsTitle(c) || (upper ? IsLower(c) : IsUpper(c))) return false;
    any = any || (upper ? IsUpper(c) : IsLower(c));
  }
  return any;
}

StrMethod FindStrMethod(std::string_view name) {
  for (const Entry& entry : kMethods) {
    if (entry.name == name) return entry.method;
  }
  return nullptr;
}

}  // namespace ingot::text::jinja

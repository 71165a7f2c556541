// Implements printing: str(), repr(), and json.dumps.
#include <algorithm>
#include <cmath>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/value.h"
#include "text/python_json.h"

namespace ingot::text::jinja {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendHex(char32_t c, int digits, std::string& out) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(c >> shift) & 15];
}

std::string ReprOfText(std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCharacter(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out += text.substr(begin, at - begin);
    } else {
      out += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      AppendHex(c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8, out);
    }
  }
  out += quote;
  return out;
}

void ReprItems(const std::vector<Value>& items, std::string_view begin, std::string_view end, StrBuilder& out) {
  out.Append(begin);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.Append(", ");
    ReprTo(items[i], out);
  }
  out.Append(end);
}

void ReprSeq(const Seq& seq, StrBuilder& out) {
  switch (seq.kind) {
    case Seq::Kind::kList:
      return ReprItems(seq.items, "[", "]", out);
    case Seq::Kind::kTuple:
    case Seq::Kind::kGroup:
      return ReprItems(seq.items, "(", seq.items.size() == 1 ? ",)" : ")", out);
    case Seq::Kind::kKeys:
      return ReprItems(seq.items, "dict_keys([", "])", out);
    case Seq::Kind::kValues:
      return ReprItems(seq.items, "dict_values([", "])", out);
    case Seq::Kind::kItems:
      return ReprItems(seq.items, "dict_items([", "])", out);
    case Seq::Kind::kGenerator:
      return out.Append("<generator object>");
    case Seq::Kind::kRange: {
      const auto [begin, end, step] = seq.range;
      return out.Append(absl::StrCat("range(", begin, ", ", end, step == 1 ? ")" : absl::StrCat(", ", step, ")")));
    }
  }
}

// Returns a JSON string as json.dumps prints it with ensure_ascii.
std::string AsciiJsonString(std::string_view text) {
  std::string plain;
  AppendPythonJsonString(text, plain);
  std::string out;
  for (size_t at = 0; at < plain.size();) {
    const char32_t c = NextCharacter(plain, at);
    if (c < 0x7F) {
      out += static_cast<char>(c);
    } else if (c < 0x10000) {
      out += "\\u";
      AppendHex(c, 4, out);
    } else {
      out += "\\u";
      AppendHex(0xD800 + ((c - 0x10000) >> 10), 4, out);
      out += "\\u";
      AppendHex(0xDC00 + ((c - 0x10000) & 0x3FF), 4, out);
    }
  }
  return out;
}

class JsonPrinter {
 public:
  JsonPrinter(const JsonStyle& style, StrBuilder& out) : style_(style), out_(out) {}

  void Print(const Value& value) {
    ChargeSteps(1);
    if (value.is_str()) {
      Text(*value.str());
    } else if (value.is_dict()) {
      PrintDict(*value.dict());
    } else if (value.is_seq() && (value.seq()->is_list() || value.seq()->is_tuple())) {
      PrintList(value.seq()->items);
    } else if (value.is_none()) {
      out_.Append("null");
    } else if (value.is_bool()) {
      out_.Append(value.boolean() ? "true" : "false");
    } else if (value.is_number()) {
      out_.Append(Number(value));
    } else if (const auto digits = value.is_object() ? value.object()->Digits() : std::nullopt) {
      out_.Append(*digits);
    } else {
      Fail(absl::StrCat("TypeError: Object of type ", TypeName(value), " is not JSON serializable"));
    }
  }

 private:
  void PrintDict(const Dict& dict) {
    if (dict.items.empty()) return out_.Append("{}");
    std::vector<const std::pair<Value, Value>*> fields;
    for (const auto& field : dict.items) fields.push_back(&field);
    if (style_.sort_keys) {
      std::stable_sort(fields.begin(), fields.end(),
                       [](const auto* a, const auto* b) { return Compare(a->first, b->first, "<") == -1; });
    }
    out_.Append("{");
    ++level_;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) Separator(style_.item_separator, style_.indent ? "," : ", ");
      NewLine();
      Key(fields[i]->first);
      Separator(style_.key_separator, ": ");
      Print(fields[i]->second);
    }
    --level_;
    NewLine();
    out_.Append("}");
  }

  static std::string Number(const Value& value) {
    if (value.is_int()) return absl::StrCat(value.integer());
    std::string text;
    AppendPythonFloat(value.number(), text);
    return text;
  }

  void Text(const Str& text) {
    std::string spelled;
    if (style_.ensure_ascii) {
      spelled = AsciiJsonString(text.bytes);
    } else {
      AppendPythonJsonString(text.bytes, spelled);
    }
    out_.AppendDerived(spelled, text);
  }

  void Key(const Value& key) {
    if (key.is_str()) return Text(*key.str());
    if (key.is_none()) return out_.Append("\"null\"");
    if (key.is_bool()) return out_.Append(key.boolean() ? "\"true\"" : "\"false\"");
    if (key.is_number()) return out_.Append(absl::StrCat("\"", Number(key), "\""));
    Fail(absl::StrCat("TypeError: keys must be str, int, float, bool or None, not ", TypeName(key)));
  }

  void NewLine() {
    if (!style_.indent) return;
    out_.Append('\n');
    for (int i = 0; i < level_; ++i) out_.Append(*style_.indent);
  }

  void Separator(const StrPtr& given, std::string_view standard) {
    if (given != nullptr) {
      out_.Append(*given);
    } else {
      out_.Append(standard);
    }
  }

  void PrintList(const std::vector<Value>& items) {
    if (items.empty()) return out_.Append("[]");
    out_.Append("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Separator(style_.item_separator, style_.indent ? "," : ", ");
      NewLine();
      Print(items[i]);
    }
    --level_;
    NewLine();
    out_.Append("]");
  }

  const JsonStyle& style_;
  StrBuilder& out_;
  int level_ = 0;
};

}  // namespace

std::string FloatRepr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string out;
  AppendPythonFloat(number, out);
  return out;
}

void ReprTo(const Value& value, StrBuilder& out) {
  ChargeSteps(1);
  if (value.is_str()) {
    const Str& text = *value.str();
    out.AppendDerived(text.markup ? absl::StrCat("Markup(", ReprOfText(text.bytes), ")") : ReprOfText(text.bytes),
                      text);
  } else if (value.is_none()) {
    out.Append("None");
  } else if (value.is_bool()) {
    out.Append(value.boolean() ? "True" : "False");
  } else if (value.is_int()) {
    out.Append(absl::StrCat(value.integer()));
  } else if (value.is_float()) {
    out.Append(FloatRepr(value.number()));
  } else if (value.is_undefined()) {
    out.Append("Undefined");
  } else if (value.is_object()) {
    out.Append(value.object()->Repr());
  } else if (value.is_seq()) {
    ReprSeq(*value.seq(), out);
  } else {
    out.Append('{');
    bool first = true;
    for (const auto& [key, item] : value.dict()->items) {
      if (!std::exchange(first, false)) out.Append(", ");
      ReprTo(key, out);
      out.Append(": ");
      ReprTo(item, out);
    }
    out.Append('}');
  }
}

std::string ReprText(const Value& value) {
  StrBuilder out;
  ReprTo(value, out);
  return out.Build().bytes;
}

void PrintTo(const Value& value, StrBuilder& out) {
  if (value.is_str()) {
    out.Append(*value.str());
  } else if (!value.is_undefined()) {
    ReprTo(value, out);
  }
}

StrPtr ToStr(const Value& value) {
  if (value.is_str()) return value.str();
  StrBuilder out;
  PrintTo(value, out);
  return out.Release();
}

StrPtr ToJson(const Value& value, const JsonStyle& style) {
  StrBuilder out;
  JsonPrinter(style, out).Print(value);
  return out.Release();
}

}  // namespace ingot::text::jinja

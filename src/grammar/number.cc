#include "grammar/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace ingot::grammar {

namespace {

constexpr char kMinInteger[] = "9223372036854775808", kMaxInteger[] = "9223372036854775807";  // 64 bits
constexpr size_t kWholeDigits = 18, kIntegerDigits = 19, kFractionDigits = 17;

// Half of a range: magnitudes from `low` to `high`, without sign.
struct Magnitudes {
  bool integer = false;
  Decimal low, high;
  bool low_excluded = false, high_excluded = false;
  bool has_high = false;
};

// Adds the spellings of `m` from `from` to `to`. A state encodes the number of digits read and whether they equal the
// first digits of a bound (tight). Only a tight state compares its next digit.
class RangeEmitter {
 public:
  RangeEmitter(Nfa& nfa, const Magnitudes& m, int32_t to) : nfa_(nfa), m_(m), to_(to) {}

  void Emit(int32_t from) {
    const size_t most = m_.integer ? kIntegerDigits : kWholeDigits;
    for (size_t length = 1; length <= most; ++length) {
      if (length < m_.low.whole.size() || (m_.has_high && length > m_.high.whole.size())) continue;
      EmitWhole(from, length, 0, length == m_.low.whole.size(), m_.has_high && length == m_.high.whole.size());
    }
  }

 private:
  static int DigitAt(const std::string& digits, size_t at) { return at < digits.size() ? digits[at] - '0' : 0; }

  void EmitWhole(int32_t from, size_t length, size_t at, bool tight_low, bool tight_high) {
    if (at == length) return EmitEnd(from, 0, tight_low, tight_high);
    const int least = at == 0 && length > 1 ? 1 : 0;
    const int low = tight_low ? std::max(least, DigitAt(m_.low.whole, at)) : least;
    const int high = tight_high ? DigitAt(m_.high.whole, at) : 9;
    for (int digit = low; digit <= high; ++digit) {
      const bool tl = tight_low && digit == DigitAt(m_.low.whole, at);
      const bool th = tight_high && digit == DigitAt(m_.high.whole, at);
      const auto [state, fresh] = StateOf({0, length, at + 1, tl, th});
      nfa_.AddByte(from, static_cast<uint8_t>('0' + digit), static_cast<uint8_t>('0' + digit), state);
      if (fresh) EmitWhole(state, length, at + 1, tl, th);
    }
  }

  // The number may end here or continue with a point.
  void EmitEnd(int32_t from, size_t at, bool tight_low, bool tight_high) {
    const bool above = !tight_low || (at >= m_.low.fraction.size() && !m_.low_excluded);
    const bool below = !tight_high || at < m_.high.fraction.size() || !m_.high_excluded;
    if (above && below) nfa_.AddEpsilon(from, to_);
    if (m_.integer) return;
    if (at == 0) {
      const auto [point, fresh] = StateOf({1, 0, 0, tight_low, tight_high});
      nfa_.AddByte(from, '.', '.', point);
      if (fresh) EmitFraction(point, 0, tight_low, tight_high);
    } else {
      EmitFraction(from, at, tight_low, tight_high);
    }
  }

  void EmitFraction(int32_t from, size_t at, bool tight_low, bool tight_high) {
    if (at >= std::max({kFractionDigits, m_.low.fraction.size() + 1, m_.high.fraction.size() + 1})) return;
    const int low = tight_low ? DigitAt(m_.low.fraction, at) : 0;
    const int high = tight_high ? DigitAt(m_.high.fraction, at) : 9;
    for (int digit = low; digit <= high; ++digit) {
      const bool tl = tight_low && digit == low, th = tight_high && digit == high;
      const auto [state, fresh] = StateOf({2, 0, at + 1, tl, th});
      nfa_.AddByte(from, static_cast<uint8_t>('0' + digit), static_cast<uint8_t>('0' + digit), state);
      if (fresh) EmitEnd(state, at + 1, tl, th);
    }
  }

  std::pair<int32_t, bool> StateOf(std::tuple<int, size_t, size_t, bool, bool> key) {
    const auto [it, fresh] = states_.try_emplace(key, -1);
    if (fresh) it->second = nfa_.AddState();
    return {it->second, fresh};
  }

  Nfa& nfa_;
  const Magnitudes& m_;
  const int32_t to_;
  std::map<std::tuple<int, size_t, size_t, bool, bool>, int32_t> states_;
};

Decimal Absolute(Decimal value) {
  value.negative = false;
  return value;
}

bool IsZero(const Decimal& value) { return value.whole == "0" && value.fraction.empty(); }

void AddDigits(Nfa& nfa, int32_t from, int32_t to, size_t most) {
  for (size_t i = 0; i < most; ++i) {
    const int32_t next = nfa.AddState();
    nfa.AddByte(from, '0', '9', next);
    nfa.AddEpsilon(next, to);
    from = next;
  }
}

void AddUnbounded(Nfa& nfa, int32_t start, int32_t end) {
  const int32_t sign = nfa.AddState(), whole = nfa.AddState(), first = nfa.AddState();
  nfa.AddByte(start, '-', '-', sign);
  nfa.AddEpsilon(start, sign);
  nfa.AddByte(sign, '0', '0', whole);
  nfa.AddByte(sign, '1', '9', first);
  nfa.AddEpsilon(first, whole);
  AddDigits(nfa, first, whole, kWholeDigits - 1);
  const int32_t point = nfa.AddState(), mantissa = nfa.AddState();
  nfa.AddEpsilon(whole, mantissa);
  nfa.AddByte(whole, '.', '.', point);
  AddDigits(nfa, point, mantissa, kFractionDigits);
  nfa.AddEpsilon(mantissa, end);
  const int32_t e = nfa.AddState(), exponent = nfa.AddState();
  nfa.AddByte(mantissa, 'e', 'e', e);
  nfa.AddByte(mantissa, 'E', 'E', e);
  nfa.AddByte(e, '+', '+', exponent);
  nfa.AddByte(e, '-', '-', exponent);
  nfa.AddEpsilon(e, exponent);
  AddDigits(nfa, exponent, end, 2);
}

// A step as a whole number of units. The unit is the place value of the step's last nonzero digit.
struct Step {
  uint64_t units = 1;
  size_t places = 0;  // digits after the point
  size_t zeros = 0;   // zeros at the end of a whole step, not part of `units`

  static Step Of(const Decimal& decimal) {
    Step step{std::stoull(decimal.whole + decimal.fraction), decimal.fraction.size(), 0};
    for (; step.places == 0 && step.units % 10 == 0; step.units /= 10) ++step.zeros;
    return step;
  }
  uint64_t After(uint64_t rest, int digit) const { return (rest * 10 + static_cast<uint64_t>(digit)) % units; }
  // Returns true if a number may end here. Its digits so far leave `rest`, and `taken` of them are after the point.
  bool Divides(uint64_t rest, size_t taken) const {
    for (; taken < places; ++taken) rest = After(rest, 0);
    return rest == 0;
  }
};

// Accepts the multiples of `step`, in any spelling with a sign, digits, and a point. A state encodes the remainder of
// the digits so far and how many of them are after the point. Only zeros may follow the step's last decimal place. If
// the step is k * 10^n with n > 0, its multiples are multiples of k followed by n zeros.
absl::StatusOr<Dfa> MultiplesDfa(const Step& step, Budget& budget) {
  INGOT_RETURN_IF_ERROR(
      Budget::Spend(budget.nfa_states, static_cast<int64_t>(step.units * (step.places + 2)), "multipleOf"));
  Nfa nfa;
  const int32_t start = nfa.AddState(), sign = nfa.AddState(), end = nfa.AddState(), zeros = nfa.AddState();
  nfa.AddByte(start, '-', '-', sign);
  nfa.AddEpsilon(start, sign);
  nfa.AddByte(zeros, '0', '0', zeros);
  nfa.AddEpsilon(zeros, end);
  // By remainder and place: 0 = before the point, 1 + n = n digits after it.
  std::map<std::pair<uint64_t, size_t>, int32_t> states;
  std::vector<std::pair<uint64_t, size_t>> found;
  const auto state_of = [&](uint64_t rest, size_t place) {
    const auto [it, fresh] = states.try_emplace({rest, place}, -1);
    if (fresh) {
      it->second = nfa.AddState();
      found.emplace_back(rest, place);
    }
    return it->second;
  };
  const auto add_digits = [&](int32_t from, uint64_t rest, size_t place) {
    for (int digit = 0; digit <= 9; ++digit) {
      const auto byte = static_cast<uint8_t>('0' + digit);
      nfa.AddByte(from, byte, byte, state_of(step.After(rest, digit), place));
    }
  };
  add_digits(sign, 0, 0);
  const int32_t whole = nfa.AddState(), point = nfa.AddState();  // after the n zeros
  nfa.AddEpsilon(whole, end);
  nfa.AddByte(whole, '.', '.', point);
  nfa.AddByte(point, '0', '0', zeros);
  nfa.AddByte(sign, '0', '0', whole);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [rest, place] = found[i];
    const int32_t state = states.at({rest, place});
    if (step.zeros > 0) {
      add_digits(state, rest, 0);
      if (rest != 0) continue;
      int32_t at = state;
      for (size_t zero = 0; zero < step.zeros; ++zero) {
        const int32_t next = zero + 1 == step.zeros ? whole : nfa.AddState();
        nfa.AddByte(at, '0', '0', next);
        at = next;
      }
      continue;
    }
    const size_t taken = place == 0 ? 0 : place - 1;
    if (place != 1 && step.Divides(rest, taken)) nfa.AddEpsilon(state, end);  // a number cannot end with a point
    if (place == 0) {
      add_digits(state, rest, 0);
      nfa.AddByte(state, '.', '.', state_of(rest, 1));
    } else if (taken < step.places) {
      add_digits(state, rest, place + 1);
    } else if (rest == 0) {
      nfa.AddByte(state, '0', '0', zeros);
    }
  }
  return Determinize(nfa, start, end, budget);
}

}  // namespace

bool NumberRange::Holds(const Decimal& value) const {
  if (low.has_value()) {
    const int order = Compare(value, *low);
    if (order < 0 || (order == 0 && low_excluded)) return false;
  }
  if (high.has_value()) {
    const int order = Compare(value, *high);
    if (order > 0 || (order == 0 && high_excluded)) return false;
  }
  if (!multiple_of.has_value()) return true;
  const Step step = Step::Of(*multiple_of);
  if (value.fraction.size() > step.places) return false;
  std::string digits = value.whole + value.fraction;
  for (size_t zero = 0; zero < step.zeros && digits != "0"; ++zero) {
    if (digits.back() != '0') return false;
    digits.pop_back();
    if (digits.empty()) digits = "0";
  }
  uint64_t rest = 0;
  for (const char digit : digits) rest = step.After(rest, digit - '0');
  return step.Divides(rest, value.fraction.size());
}

bool NumberRange::CanBeSpelled() const {
  const Decimal most{false, integer ? kMaxInteger : std::string(kWholeDigits, '9'), integer ? "" : "9"};
  const Decimal least{true, integer ? kMinInteger : most.whole, most.fraction};
  return (!low.has_value() || Compare(*low, most) <= 0) && (!high.has_value() || Compare(*high, least) >= 0);
}

std::optional<Decimal> Decimal::Parse(std::string_view text) {
  Decimal out;
  if (!text.empty() && text[0] == '-') {
    out.negative = true;
    text.remove_prefix(1);
  }
  const size_t point = text.find('.');
  std::string whole(text.substr(0, point));
  std::string fraction(point == std::string_view::npos ? "" : text.substr(point + 1));
  if (whole.empty() || whole.size() > 400 || fraction.size() > 400) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(whole.begin(), whole.end(), is_digit)) return std::nullopt;
  if (!std::all_of(fraction.begin(), fraction.end(), is_digit)) return std::nullopt;
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  out.whole = std::move(whole);
  out.fraction = std::move(fraction);
  if (IsZero(out)) out.negative = false;
  return out;
}

std::optional<Decimal> Decimal::Of(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  std::array<char, 800> buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  return Parse(std::string_view(buffer.data(), end - buffer.data()));
}

int Compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = 0;
  if (a.whole.size() != b.whole.size()) {
    order = a.whole.size() < b.whole.size() ? -1 : 1;
  } else if (const int whole = a.whole.compare(b.whole); whole != 0) {
    order = whole;
  } else {
    order = a.fraction.compare(b.fraction);  // fractions without trailing zeros sort as strings
  }
  return a.negative ? -order : order;
}

absl::StatusOr<Dfa> NumberDfa(const NumberRange& range, Budget& budget) {
  if (range.multiple_of.has_value()) {
    NumberRange any = range;
    any.multiple_of.reset();
    INGOT_ASSIGN_OR_RETURN(const Dfa numbers, NumberDfa(any, budget));
    INGOT_ASSIGN_OR_RETURN(const Dfa multiples, MultiplesDfa(Step::Of(*range.multiple_of), budget));
    return Intersect(numbers, multiples, budget);
  }
  Nfa nfa;
  const int32_t start = nfa.AddState(), end = nfa.AddState();
  if (!range.integer && !range.low.has_value() && !range.high.has_value()) {
    AddUnbounded(nfa, start, end);
    return Determinize(nfa, start, end, budget);
  }
  NumberRange r = range;
  if (r.integer) {
    const Decimal least{true, kMinInteger, ""}, most{false, kMaxInteger, ""};
    if (!r.low.has_value() || Compare(*r.low, least) < 0) r.low = least, r.low_excluded = false;
    if (!r.high.has_value() || Compare(*r.high, most) > 0) r.high = most, r.high_excluded = false;
  }
  const Decimal zero;
  if (!r.high.has_value() || Compare(*r.high, zero) >= 0) {
    Magnitudes m;
    m.integer = r.integer;
    if (r.low.has_value() && Compare(*r.low, zero) >= 0) m.low = *r.low, m.low_excluded = r.low_excluded;
    m.has_high = r.high.has_value();
    if (m.has_high) m.high = *r.high, m.high_excluded = r.high_excluded;
    if (!m.has_high || Compare(m.low, m.high) <= 0) RangeEmitter(nfa, m, end).Emit(start);
  }
  if (!r.low.has_value() || Compare(*r.low, zero) < 0) {
    Magnitudes m;
    m.integer = r.integer;
    m.low_excluded = true;  // excludes "-0"
    if (r.high.has_value() && Compare(*r.high, zero) < 0) {
      m.low = Absolute(*r.high);
      m.low_excluded = r.high_excluded;
    }
    m.has_high = r.low.has_value();
    if (m.has_high) m.high = Absolute(*r.low), m.high_excluded = r.low_excluded;
    const int32_t sign = nfa.AddState();
    nfa.AddByte(start, '-', '-', sign);
    if (!m.has_high || Compare(m.low, m.high) <= 0) RangeEmitter(nfa, m, end).Emit(sign);
  }
  return Determinize(nfa, start, end, budget);
}

}  // namespace ingot::grammar

// Converts a tool call's arguments, which arrive in pieces, to one JSON object, as far as they can be parsed. Used for
// clients that expect arguments as an object.
//
//   {"city": "Paris", "days": 3}    {"city": "Paris", "days": 3}
//   {"city": "Par                   {"city": "Par"}
//   {"city": Paris}                 {}
//   {"days": 3 or 4}                {"days": 3}
//   ls -l                           {}
//
// Text is returned as soon as it can begin an object that can be closed right after it. So a member is delayed until
// the first byte of its value, and an escape until it is complete. The first byte that cannot continue an object closes
// the object, and all later text is ignored. For any arguments, split anywhere between characters, the pieces form an
// object that base::ParseJson can read, even when embedded in a request. Not thread safe.
#pragma once

#include <string>
#include <string_view>

namespace ingot::text {

class ReadableObject {
 public:
  // Adds arguments in UTF-8. Returns the text to append to the object.
  std::string Push(std::string_view arguments);
  // Must be called after the last Push. Returns the text that closes the object; empty if it is already closed.
  std::string Finish();

 private:
  // State for the next byte. kNumber and kWord are within a value.
  enum class Place {
    kBegin,
    kKeyOrEnd,
    kKey,
    kInKey,
    kColon,
    kValue,
    kItemOrEnd,
    kString,
    kNumber,
    kWord,
    kNext,
    kEnd
  };

  // Reads one byte. Returns false if no object can continue with it.
  bool Read(char c);
  bool ReadValue(char c);
  bool ReadString(char c);
  bool ReadEscape();
  bool ReadNumber(char c);
  bool Open(char bracket);
  bool Close(char bracket);
  void EmitHeld();

  Place place_ = Place::kBegin;
  std::string brackets_;   // open brackets
  std::string emitted_;    // text not yet returned
  std::string held_;       // text after emitted_ after which the object cannot be closed yet, such as a key
  std::string escape_;     // incomplete escape in a string; for characters above U+FFFF, both surrogates
  std::string number_;     // the number so far: sign, digits, point, and exponent
  std::string_view word_;  // remaining letters of true, false, or null
};

// Returns the object for a call's complete arguments.
std::string ReadableObjectText(std::string_view arguments);

}  // namespace ingot::text

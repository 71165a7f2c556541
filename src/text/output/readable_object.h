// ReadableObject: the arguments of a tool call as one JSON object, as far as they can be read, while they arrive in
// pieces. Clients that take arguments as an object get this object.
//
//   {"city": "Paris", "days": 3}    {"city": "Paris", "days": 3}
//   {"city": "Par                   {"city": "Par"}
//   {"city": Paris}                 {}
//   {"days": 3 or 4}                {"days": 3}
//   ls -l                           {}
//
// Text is returned as soon as an object can begin with it and be closed after it. So a member waits for the first byte
// of its value, and an escape until it is complete. The first byte that no object can have in its place closes the
// object, and all text from it on is ignored. The pieces together are an object that base::ParseJson reads, even within
// a request, for any arguments and any cuts between characters. Not thread safe.
#pragma once

#include <string>
#include <string_view>

namespace ingot::text {

class ReadableObject {
 public:
  // Adds arguments, in UTF-8. Returns the text to append to the object so far.
  std::string Push(std::string_view arguments);
  // The arguments have ended. Returns the text that closes the object; empty if it was closed.
  std::string Finish();

 private:
  // The place of the next byte; kNumber and kWord: within a value.
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

  // Reads one byte. False: no object can continue with it.
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
  std::string emitted_;    // not returned yet
  std::string held_;       // after emitted_: text that cannot be closed, such as a key
  std::string escape_;     // the begun escape of a string; of characters beyond U+FFFF two are one
  std::string number_;     // the digits, sign, point and exponent so far
  std::string_view word_;  // the missing rest of true, false or null
};

// The object of all arguments of a call.
std::string ReadableObjectText(std::string_view arguments);

}  // namespace ingot::text

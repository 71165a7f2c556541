"""Strings that are hard on tokenizers: all scripts, emoji, controls, white space of every kind, broken markup."""
import random

WORDS = ("the don't I'LL we've THEY'RE it's 'tis rock'n'roll naïve façade Straße ſchön don'ſ Ελλάδα Москва привет שלום "
         "مرحبا नमस्ते ประเทศไทย 中文 你好世界 日本語 カタカナ ひらがな 한국어 안녕하세요 tiếng_Việt Türkçe ıİ ŉ ǅ ﬁne ½ ² ⅷ ٣٤ "
         "१२३ 〇一二 HTTPServer camelCaseWord snake_case SCREAMING_CASE x86_64 3.14159 1,234,567 0xDEADBEEF 2024-12-31 "
         "user@example.com https://a.b/c?d=e&f=g#h C:\\dir\\file /usr/lib/x.so <div class=\"a\"> </p> {\"k\": [1, 2]} "
         "def f(x): return x**2 if(a&&b||!c){d[i]+=e;} // /* */ --- ... ??? !!! $#@% => -> :: \\n \\t ` ~ ^").split(" ")
SPACES = [chr(c) for c in (9, 10, 11, 12, 13, 32, 32, 32, 32, 10, 0x85, 0xA0, 0x1680, 0x2000, 0x2003, 0x200A, 0x2028, 0x2029,
                           0x202F, 0x205F, 0x3000, 0x200B, 0xFEFF, 0x180E)] + ["\r\n", "  ", "\n\n", "    "]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "☃", "#️⃣", "🫠", "🪿"]
MARKS = [chr(c) for c in (0x300, 0x301, 0x302, 0x308, 0x323, 0x327, 0x334, 0x345, 0x5B0, 0x64B, 0x93C, 0x94D, 0xE38, 0xF71,
                          0x302A, 0x3099, 0x309A, 0x20DD, 0xFE0F, 0x1AC1, 0x8CA, 0x1DFA, 0x16FF0, 0x11938, 0x10EFD, 0x1171E)]
# First and last characters of blocks, one per script and kind, some of them new in Unicode 15 and 16.
BLOCKS = [(0, 0x1F), (0x20, 0x7E), (0x20, 0x7E), (0x7F, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F),
          (0x530, 0x5FF), (0x600, 0x6FF), (0x700, 0x8FF), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x109F), (0x10A0, 0x11FF),
          (0x1200, 0x139F), (0x13A0, 0x167F), (0x1680, 0x17FF), (0x1800, 0x1AFF), (0x1B00, 0x1CFF), (0x1D00, 0x1DFF),
          (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x23FF), (0x2400, 0x27BF), (0x2800, 0x2BFF),
          (0x2C00, 0x2E7F), (0x2E80, 0x303F), (0x3040, 0x30FF), (0x3100, 0x33FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
          (0x4E00, 0x9FFF), (0xA000, 0xA4CF), (0xA4D0, 0xABFF), (0xAC00, 0xD7A3), (0xD7A4, 0xD7FF), (0xE000, 0xE0FF),
          (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10000, 0x103FF), (0x10400, 0x107FF), (0x10800, 0x10FFF),
          (0x11000, 0x11FFF), (0x12000, 0x143FF), (0x14400, 0x167FF), (0x16800, 0x18DFF), (0x1AFF0, 0x1B16F), (0x1CC00, 0x1D7FF),
          (0x1D800, 0x1EEFF), (0x1F000, 0x1FBFF), (0x20000, 0x2A6DF), (0x2A700, 0x2EE5F), (0x2F800, 0x2FA1F), (0x30000, 0x323AF),
          (0xE0000, 0xE01EF), (0xF0000, 0x10FFFF)]


def from_block(rng, block, most):
    return "".join(chr(rng.randint(*block)) for _ in range(rng.randint(1, most)))


def broken_bytes(rng):
    """What Python makes of bytes that are no UTF-8: the strings that a service passes on for such input."""
    return bytes(rng.choice((0x80, 0xC3, 0xA9, 0xE2, 0x82, 0xF0, 0x9F, 0x98, 0xFF, 0x41, 0xED, 0xA0)) for _ in
                 range(rng.randint(1, 6))).decode("utf-8", "replace")


class Fuzz:
    """Strings from a seed; `specials` are a tokenizer's added tokens, which appear whole, cut and with their case changed."""

    def __init__(self, seed, specials):
        self.rng = random.Random(seed)
        self.specials = list(specials) or ["<s>"]

    def part(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.30:
            return rng.choice(WORDS)
        if kind < 0.45:
            return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4)))
        if kind < 0.65:
            return from_block(rng, rng.choice(BLOCKS), 6)
        if kind < 0.70:
            return rng.choice("aeioAuUEn中かक") + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 3)))
        if kind < 0.75:
            return rng.choice(EMOJI)
        if kind < 0.80:
            return "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 9)))
        if kind < 0.86:
            return rng.choice(("'s", "'S", "'t", "'RE", "'ve", "'m", "'Ll", "'d", "'ſ", "'x", "’s", "''s", " 's"))
        if kind < 0.93:
            token = rng.choice(self.specials)
            cut = rng.random()
            if cut < 0.7:
                return token
            if cut < 0.85:
                return token[:rng.randint(0, len(token))]
            return token.swapcase() if cut < 0.95 else token[rng.randint(0, len(token)):]
        if kind < 0.96:
            return broken_bytes(rng)
        if kind < 0.98:
            return rng.choice(("a", " ", "\n", "-", "=", "中", "\t", "ab", "0", "▁", "é")) * rng.randint(2, 70)
        return "".join(rng.choice("ᄀ까ᅢᆨᆩ가각힣") for _ in range(rng.randint(1, 5)))

    def string(self):
        rng = self.rng
        count = rng.choice((0, 1, 1, 2, 3, 4, 6, 9, 14, 25))
        joint = rng.choice(("", "", " "))
        return joint.join(self.part() for _ in range(count))

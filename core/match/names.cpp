#include "match/names.hpp"

#include <algorithm>
#include <array>

namespace narrows {
namespace {

struct Escape {
  std::uint8_t character, letter;
};
constexpr Escape kJson[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {8, 'b'}, {12, 'f'}, {10, 'n'}, {13, 'r'}, {9, 't'}};
constexpr Escape kSingle[] = {{'\'', '\''}, {'\\', '\\'}, {10, 'n'}, {13, 'r'}, {9, 't'}};

std::span<const Escape> escapes(NameSpelling spelling) {
  if (spelling == NameSpelling::json) return kJson;
  return kSingle;
}

std::uint32_t hex(std::span<const std::uint8_t> digits) {
  std::uint32_t value = 0;
  for (std::uint8_t d : digits) value = value * 16 + (d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10);
  return value;
}

void add_utf8(std::vector<std::uint8_t>& out, std::uint32_t point) {
  const auto more = [&](int shift) { out.push_back(static_cast<std::uint8_t>(0x80 | ((point >> shift) & 0x3f))); };
  if (point < 0x80) {
    out.push_back(static_cast<std::uint8_t>(point));
  } else if (point < 0x800) {
    out.push_back(static_cast<std::uint8_t>(0xc0 | (point >> 6)));
    more(0);
  } else if (point < 0x10000) {
    out.push_back(static_cast<std::uint8_t>(0xe0 | (point >> 12)));
    more(6);
    more(0);
  } else {
    out.push_back(static_cast<std::uint8_t>(0xf0 | (point >> 18)));
    more(12);
    more(6);
    more(0);
  }
}

std::size_t utf8_length(std::uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

// Without quotes and escapes. The grammar has read the text, so that it is well formed; what is not is taken as it stands.
std::vector<std::uint8_t> unescaped(std::span<const std::uint8_t> text, NameSpelling spelling) {
  std::vector<std::uint8_t> out;
  if (spelling == NameSpelling::bytes || text.size() < 2) {
    out.assign(text.begin(), text.end());
    return out;
  }
  text = text.subspan(1, text.size() - 2);
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i++]);
      continue;
    }
    const std::uint8_t letter = text[i + 1];
    if (letter == 'u' && spelling == NameSpelling::json && i + 6 <= text.size()) {
      std::uint32_t point = hex(text.subspan(i + 2, 4));
      i += 6;
      if (point >= 0xd800 && point < 0xdc00 && i + 6 <= text.size()) {
        point = 0x10000 + ((point - 0xd800) << 10) + (hex(text.subspan(i + 2, 4)) - 0xdc00);
        i += 6;
      }
      add_utf8(out, point);
      continue;
    }
    const auto found = std::ranges::find(escapes(spelling), letter, &Escape::letter);
    out.push_back(found == escapes(spelling).end() ? letter : found->character);
    i += 2;
  }
  return out;
}

}  // namespace

Names::Names(Lexicon& lexicon, std::uint64_t most) : lexicon_(lexicon), most_(most) {
  for (std::uint32_t s = 0; s < kNameSpellings; ++s) prefixes_.push_back({kNone, 0, static_cast<NameSpelling>(s)});
  set_ids_.insert(hash_words(7, {}), kNoNames);
}

NameText Names::extend(NameText text, std::uint8_t byte) {
  if (const NameText known = next_.find(text, byte); known != kNone) return known;
  const auto made = static_cast<NameText>(prefixes_.size());
  prefixes_.push_back({text, byte, prefixes_[text].spelling});
  next_.insert(text, byte, made);
  return made;
}

std::uint32_t Names::name_of(NameText text, Work& work) {
  std::vector<std::uint8_t> read;
  for (NameText at = text; prefixes_[at].before != kNone; at = prefixes_[at].before) read.push_back(prefixes_[at].byte);
  std::ranges::reverse(read);
  work.spend(8 + 2 * read.size());
  const std::vector<std::uint8_t> plain = unescaped(read, prefixes_[text].spelling);
  std::uint64_t hash = mix(9, plain.size());
  for (std::uint8_t b : plain) hash = mix(hash, b);
  const std::uint32_t known =
      name_ids_.find(hash, [&](std::uint32_t id) { return std::ranges::equal(name(id), plain); });
  if (known != kNone) return known;
  const auto id = static_cast<std::uint32_t>(name_offsets_.size() - 1);
  name_bytes_.insert(name_bytes_.end(), plain.begin(), plain.end());
  name_offsets_.push_back(static_cast<std::uint32_t>(name_bytes_.size()));
  name_ids_.insert(hash, id);
  return id;
}

NameSet Names::add(NameSet set, NameText text, Work& work) {
  if (members(set).size() >= most_) return set;
  const std::uint32_t added = name_of(text, work);
  work.spend(8 + members(set).size());
  std::vector<std::uint32_t> all(members(set).begin(), members(set).end());
  const auto at = std::ranges::lower_bound(all, added);
  if (at != all.end() && *at == added) return set;
  all.insert(at, added);
  const std::uint64_t hash = hash_words(7, all);
  const NameSet known = set_ids_.find(hash, [&](NameSet id) { return std::ranges::equal(members(id), all); });
  if (known != kNone) return known;
  const auto id = static_cast<NameSet>(set_offsets_.size() - 1);
  set_names_.insert(set_names_.end(), all.begin(), all.end());
  set_offsets_.push_back(static_cast<std::uint32_t>(set_names_.size()));
  set_ids_.insert(hash, id);
  return id;
}

TermId Names::without(TermId term, NameSpelling spelling, NameSet set, Work& work) {
  if (set == kNoNames) return term;
  const std::uint32_t label = set * kNameSpellings + static_cast<std::uint32_t>(spelling);
  if (const TermId known = without_.find(term, label); known != kNone) return known;
  work.spend(16 + 8 * members(set).size());
  std::vector<TermId> spelled;
  for (std::uint32_t id : members(set)) spelled.push_back(spell(id, spelling, work));
  const TermId kept[] = {term, lexicon_.terms().complement(lexicon_.terms().alt(spelled))};
  const TermId made = lexicon_.terms().both(kept);
  without_.insert(term, label, made);
  return made;
}

TermId Names::spell(std::uint32_t id, NameSpelling spelling, Work& work) {
  if (const TermId known = spelled_.find(id, static_cast<std::uint32_t>(spelling)); known != kNone) return known;
  Terms& terms = lexicon_.terms();
  const auto text = name(id);
  work.spend(8 + 64 * text.size());
  const auto literal = [&](std::span<const std::uint8_t> bytes) {
    const std::uint64_t offsets[] = {0, bytes.size()};
    return terms.literals(bytes, offsets);
  };
  TermId made = kEmpty;
  if (spelling == NameSpelling::bytes) {
    made = literal(text);
  } else {
    std::vector<TermId> parts;
    const std::uint8_t quote[] = {static_cast<std::uint8_t>(spelling == NameSpelling::json ? '"' : '\'')};
    parts.push_back(literal(quote));
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = std::min(utf8_length(text[i]), text.size() - i);
      parts.push_back(spell_character(text.subspan(i, length), spelling));
      i += length;
    }
    parts.push_back(literal(quote));
    while (!parts.empty()) {
      made = terms.cat(parts.back(), made);
      parts.pop_back();
    }
  }
  spelled_.insert(id, static_cast<std::uint32_t>(spelling), made);
  return made;
}

// The character itself, its short escape, and in JSON its number in digits of either case. More than the grammar allows does no harm.
TermId Names::spell_character(std::span<const std::uint8_t> utf8, NameSpelling spelling) {
  Terms& terms = lexicon_.terms();
  const auto literal = [&](std::span<const std::uint8_t> bytes) {
    const std::uint64_t offsets[] = {0, bytes.size()};
    return terms.literals(bytes, offsets);
  };
  std::vector<TermId> options{literal(utf8)};
  const auto found = std::ranges::find(escapes(spelling), utf8[0], &Escape::character);
  if (found != escapes(spelling).end()) {
    const std::uint8_t pair[] = {'\\', found->letter};
    options.push_back(literal(pair));
  }
  if (spelling == NameSpelling::json) {
    std::uint32_t point = utf8[0];
    if (utf8.size() > 1) point &= 0x3fu >> (utf8.size() - 1);
    for (std::uint8_t b : utf8.subspan(1)) point = (point << 6) | (b & 0x3f);
    const std::uint8_t begin[] = {'\\', 'u'};
    std::vector<std::uint32_t> units{point};
    if (point >= 0x10000) units = {0xd800 + ((point - 0x10000) >> 10), 0xdc00 + ((point - 0x10000) & 0x3ff)};
    TermId number = kEmpty;
    while (!units.empty()) {
      for (int shift = 0; shift < 16; shift += 4) {
        const auto digit = static_cast<std::uint8_t>("0123456789abcdef"[(units.back() >> shift) & 15]);
        ByteSet either;
        either.add(digit);
        if (digit > '9') either.add(static_cast<std::uint8_t>(digit & ~0x20));
        number = terms.cat(terms.set(either), number);
      }
      number = terms.cat(literal(begin), number);
      units.pop_back();
    }
    options.push_back(number);
  }
  return terms.alt(options);
}

std::size_t Names::bytes() const {
  return prefixes_.size() * sizeof(Prefix) + next_.bytes() + name_bytes_.size() +
         (name_offsets_.size() + set_names_.size() + set_offsets_.size()) * 4 + name_ids_.bytes() + set_ids_.bytes() +
         spelled_.bytes() + without_.bytes();
}

}  // namespace narrows

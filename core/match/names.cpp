#include "match/names.hpp"

#include <algorithm>

namespace narrows {
namespace {

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

// Without quotes and escapes. The grammar has read the text, so that it is well formed; what is not is taken as it
// stands.
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
  return spelled(read, prefixes_[text].spelling);
}

std::uint32_t Names::spelled(std::span<const std::uint8_t> text, NameSpelling spelling) {
  return intern(unescaped(text, spelling), is_string(spelling));
}

std::uint32_t Names::intern(std::span<const std::uint8_t> plain, bool string) {
  std::uint64_t hash = mix(mix(9, string ? 1 : 0), plain.size());
  for (std::uint8_t b : plain) hash = mix(hash, b);
  const std::uint32_t known = name_ids_.find(
      hash, [&](std::uint32_t id) { return (is_string_[id] != 0) == string && std::ranges::equal(name(id), plain); });
  if (known != kNone) return known;
  const auto id = static_cast<std::uint32_t>(name_offsets_.size() - 1);
  name_bytes_.insert(name_bytes_.end(), plain.begin(), plain.end());
  name_offsets_.push_back(static_cast<std::uint32_t>(name_bytes_.size()));
  is_string_.push_back(string ? 1 : 0);
  name_ids_.insert(hash, id);
  return id;
}

NameText Names::fixed(std::span<const std::uint8_t> name, bool string) { return kFixed + intern(name, string); }

bool Names::has_all(NameSet set, std::span<const NameText> texts, Work& work) const {
  const auto some = members(set);
  work.spend(4 + (some.size() + texts.size()) / 4);
  return texts.size() <= some.size() &&
         std::ranges::includes(some, texts, {}, {}, [](NameText text) { return text - kFixed; });
}

NameSet Names::add(NameSet set, NameText text, Work& work) {
  if (text < kFixed && members(set).size() >= most_) return set;
  const std::uint32_t added = text < kFixed ? name_of(text, work) : text - kFixed;
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

// The same of a list of strings, which stays one.
TermId Names::fewer(TermId term, NameSpelling spelling, NameSet set, Work& work) {
  Terms& terms = lexicon_.terms();
  std::vector<std::uint8_t> kept;
  std::vector<std::uint64_t> offsets{0};
  for (const auto option : terms.options(term)) {
    work.spend(8 + option.size());
    if (has(set, spelled(option, spelling))) continue;
    kept.insert(kept.end(), option.begin(), option.end());
    offsets.push_back(kept.size());
  }
  return terms.literals(kept, offsets);
}

TermId Names::without(TermId term, NameSpelling spelling, NameSet set, Work& work) {
  constexpr std::uint32_t kFew = 1'024;  // each set of names has a list of its own
  if (set == kNoNames) return term;
  const std::uint32_t label = set * kNameSpellings + static_cast<std::uint32_t>(spelling);
  if (const TermId known = without_.find(term, label); known != kNone) return known;
  if (const Term& t = lexicon_.terms()[term]; t.op == Op::literals && t.d == 0 && t.c - t.b <= kFew) {
    const TermId made = fewer(term, spelling, set, work);
    without_.insert(term, label, made);
    return made;
  }
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint64_t> offsets{0};
  for (std::uint32_t id : members(set)) {
    if ((is_string_[id] != 0) != is_string(spelling)) continue;
    bytes.insert(bytes.end(), name(id).begin(), name(id).end());
    offsets.push_back(bytes.size());
  }
  work.spend(64 + 16 * members(set).size() + bytes.size());
  if (offsets.size() == 1) return term;
  Terms& terms = lexicon_.terms();
  TermId spelled = kNever;
  if (spelling == NameSpelling::bytes) {
    spelled = terms.literals(bytes, offsets);
  } else {
    ByteSet opening;
    opening.add(quote(spelling));
    spelled = terms.cat(terms.set(opening), terms.names(bytes, offsets, spelling));
  }
  const TermId kept[] = {term, terms.complement(spelled)};
  const TermId made = terms.both(kept);
  without_.insert(term, label, made);
  return made;
}

std::size_t Names::bytes() const {
  return held(prefixes_) + next_.bytes() + held(name_bytes_) + held(name_offsets_) + held(set_names_) +
         held(set_offsets_) + held(is_string_) + name_ids_.bytes() + set_ids_.bytes() + without_.bytes();
}

}  // namespace narrows
